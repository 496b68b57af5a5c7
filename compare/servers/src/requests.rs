//! Requests: what clients send, and what the routes of the server are called for them.

/// Bytes of the body of a `POST`, which come back.
pub(crate) const BODY: usize = 128;

/// What a small request is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Request {
    Get,
    /// In one piece
    Post,
    /// Head and half of the body, then the rest
    PostInTwo,
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\naccept: */*\r\n\r\n";

/// With a body of `BODY` bytes.
const POST: &[u8] = b"POST /echo HTTP/1.1\r\nhost: localhost\r\naccept: */*\r\n\
    content-type: text/plain\r\ncontent-length: 128\r\n\r\n\
    0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\
    0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

impl Request {
    /// What is sent at once, and what is sent a little later.
    pub(crate) fn pieces(self) -> (&'static [u8], &'static [u8]) {
        match self {
            Self::Get => (GET, &[]),
            Self::Post => (POST, &[]),
            Self::PostInTwo => POST.split_at(POST.len() - BODY / 2),
        }
    }
}

/// It has no end.
pub(crate) const HALF_A_HEAD: &[u8] = b"GET / HTTP/1.1\r\nhost: lo";

/// The rest of the body does not come.
pub(crate) const HALF_A_BODY: &[u8] =
    b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 128\r\n\r\n0123";

/// The handler does not answer.
pub(crate) const SLOW: &[u8] = b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// The response has more bytes than buffers on the way take.
pub(crate) const LARGE: &[u8] = b"GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_post_has_the_body_that_its_head_tells() {
        let head = format!("content-length: {BODY}\r\n\r\n");
        for post in [Request::Post, Request::PostInTwo] {
            let (first, rest) = post.pieces();
            let all = String::from_utf8([first, rest].concat()).expect("it is text");
            let (_, body) = all.split_once(&head).expect("its head says how long it is");
            assert_eq!(body.len(), BODY);
        }
        assert_eq!(Request::PostInTwo.pieces().1.len(), BODY / 2);
    }
}
