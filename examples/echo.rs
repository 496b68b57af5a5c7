//! An echo server over TCP that closes connections on which nothing came for a while:
//! `cargo run --example echo --features async`.

use futures_lite::{AsyncReadExt, AsyncWriteExt};
use smol::net::{TcpListener, TcpStream};
use std::io;
use std::time::Duration;
use wheelwork::future::timeout;

/// Sends back what comes, until nothing has come for so long, or the other side has closed. Why it
/// ended.
async fn echo(mut stream: TcpStream, idle_max: Duration) -> io::Result<&'static str> {
    let mut buffer = [0; 1024];
    loop {
        match timeout(idle_max, stream.read(&mut buffer)).await {
            Err(_) => return Ok("idle"),
            Ok(read) => match read? {
                0 => return Ok("closed"),
                bytes => stream.write_all(&buffer[..bytes]).await?,
            },
        }
    }
}

/// Serves whoever connects.
async fn serve(
    listener: TcpListener,
    idle_max: Duration,
    tell: impl Fn(&str) + Clone + Send + 'static,
) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let tell = tell.clone();
        smol::spawn(async move {
            match echo(stream, idle_max).await {
                Ok(why) => tell(why),
                Err(error) => tell(&error.to_string()),
            }
        })
        .detach();
    }
}

fn main() -> io::Result<()> {
    smol::block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        println!("listening on {address}");
        let server = smol::spawn(serve(listener, Duration::from_millis(100), |why| {
            println!("a connection ended: {why}")
        }));
        let mut client = TcpStream::connect(address).await?;
        let mut answer = [0; 5];
        client.write_all(b"hello").await?;
        client.read_exact(&mut answer).await?;
        println!("it says {:?}", String::from_utf8_lossy(&answer));
        // Now nothing comes: the server closes.
        println!("the rest is {} bytes", client.read(&mut answer).await?);
        drop(server);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    /// As many as the system's limit of open files lets us have, 10,000 at the most: two files for
    /// a connection.
    fn connections() -> usize {
        #[cfg(target_os = "linux")]
        {
            let mut limit = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            // SAFETY: the limit is written there.
            unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
            limit.rlim_cur = limit.rlim_max.min(1 << 20);
            // SAFETY: it is not above the greatest one.
            unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
            (limit.rlim_cur as usize / 2)
                .saturating_sub(100)
                .min(10_000)
        }
        #[cfg(not(target_os = "linux"))]
        100
    }

    #[test]
    fn closes_those_that_are_idle_and_no_others() {
        smol::block_on(async {
            let connections = connections();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let idle = Arc::new(AtomicUsize::new(0));
            let count = idle.clone();
            let tell = move |why: &str| _ = count.fetch_add(usize::from(why == "idle"), SeqCst);
            let _server = smol::spawn(serve(listener, Duration::from_secs(2), tell));
            let mut clients = Vec::new();
            for number in 0..connections {
                let mut client = TcpStream::connect(address).await.unwrap();
                let (sent, mut came) = ((number as u64).to_le_bytes(), [0; 8]);
                client.write_all(&sent).await.unwrap();
                client.read_exact(&mut came).await.unwrap();
                assert_eq!(sent, came);
                clients.push(client);
            }
            // All fall silent: the server closes, and says so to each.
            for mut client in clients {
                assert_eq!(client.read(&mut [0; 8]).await.unwrap(), 0);
            }
            while idle.load(SeqCst) < connections {
                wheelwork::future::sleep(Duration::from_millis(1)).await;
            }
        });
    }
}
