//! tokio's traits for streams with limits.

use super::stream::TimeoutIo;
use super::wakers::Way;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

impl<T: AsyncRead> AsyncRead for TimeoutIo<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.project();
        this.watch.begin()?;
        let before = buffer.filled().len();
        let outcome = this.inner.poll_read(context, buffer);
        let bytes = buffer.filled().len() - before;
        this.watch.end(Way::Read, context, outcome, |()| bytes)
    }
}

impl<T: AsyncWrite> AsyncWrite for TimeoutIo<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        this.watch.begin()?;
        let outcome = this.inner.poll_write(context, bytes);
        this.watch.end(Way::Write, context, outcome, |bytes| *bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        this.watch.begin()?;
        let outcome = this.inner.poll_write_vectored(context, slices);
        this.watch.end(Way::Write, context, outcome, |bytes| *bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        let outcome = this.inner.poll_flush(context);
        this.watch.end(Way::Write, context, outcome, |()| 0)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        let outcome = this.inner.poll_shutdown(context);
        this.watch.end(Way::Write, context, outcome, |()| 0)
    }
}
