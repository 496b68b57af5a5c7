//! Response: finds the ends of responses in a stream of bytes.

/// What a client wants to know of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Bytes of head and body.
    pub(crate) length: usize,
}

/// A head that is longer is none of this server's.
const HEAD_MAX: usize = 4_096;

impl Response {
    /// The first one in these bytes, if it is there to its end. An error: they are no response of
    /// this server.
    pub(crate) fn first(bytes: &[u8]) -> Result<Option<Self>, String> {
        let Some(response) = Self::first_head(bytes)? else {
            return Ok(None);
        };
        Ok((response.length <= bytes.len()).then_some(response))
    }

    /// The same, if its head is there to its end.
    pub(crate) fn first_head(bytes: &[u8]) -> Result<Option<Self>, String> {
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            return match bytes.len() > HEAD_MAX {
                true => Err("a response without the end of a head".to_string()),
                false => Ok(None),
            };
        };
        let head = std::str::from_utf8(&bytes[..end]).unwrap_or_default();
        let mut lines = head.split("\r\n");
        let first = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 "));
        let status = first.and_then(|rest| rest.get(..3)?.parse().ok());
        let status = status.ok_or_else(|| format!("no response: {head:.40}"))?;
        let length = lines.find_map(|line| line.strip_prefix("content-length: "));
        let body: Option<usize> = length.map_or(Some(0), |length| length.parse().ok());
        let body = body.ok_or_else(|| format!("no length: {head:.40}"))?;
        Ok(Some(Self {
            status,
            length: end + 4 + body,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\ndate: now\r\n\r\nhello\n";

    #[test]
    fn a_response_ends_with_its_body() {
        for end in 0..HELLO.len() {
            assert_eq!(Response::first(&HELLO[..end]), Ok(None), "{end}");
        }
        let expected = Response {
            status: 200,
            length: HELLO.len(),
        };
        let two = [HELLO, HELLO].concat();
        assert_eq!(Response::first(&two), Ok(Some(expected)));
    }

    #[test]
    fn a_response_may_have_no_body() {
        let late = b"HTTP/1.1 504 Gateway Timeout\r\n\r\n";
        let expected = Response {
            status: 504,
            length: late.len(),
        };
        assert_eq!(Response::first(late), Ok(Some(expected)));
    }

    #[test]
    fn what_is_no_response_is_told() {
        assert!(Response::first(b"SSH-2.0\r\n\r\n").is_err());
        assert!(Response::first(b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n").is_err());
        assert!(Response::first(&[b'x'; HEAD_MAX + 1]).is_err());
    }
}
