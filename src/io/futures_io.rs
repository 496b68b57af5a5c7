//! The traits of `futures` for streams with limits.

use super::stream::TimeoutIo;
use super::wakers::Way;
use futures_io::{AsyncRead, AsyncWrite};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

impl<T: AsyncRead> AsyncRead for TimeoutIo<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        this.watch.begin()?;
        let outcome = this.inner.poll_read(context, buffer);
        this.watch.end(Way::Read, context, outcome, |bytes| *bytes)
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &mut [io::IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        this.watch.begin()?;
        let outcome = this.inner.poll_read_vectored(context, slices);
        this.watch.end(Way::Read, context, outcome, |bytes| *bytes)
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

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        let outcome = this.inner.poll_flush(context);
        this.watch.end(Way::Write, context, outcome, |()| 0)
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        let outcome = this.inner.poll_close(context);
        this.watch.end(Way::Write, context, outcome, |()| 0)
    }
}
