//! A stream whose other end the test plays, with the traits of tokio and of `futures`.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tokio::io::ReadBuf;

#[derive(Debug, Default)]
struct State {
    /// What the other end has sent.
    sent: VecDeque<u8>,
    is_ended: bool,
    /// What the other end has got, and how much more it takes.
    got: Vec<u8>,
    room: usize,
    /// Whether a flush and a shutdown need not wait.
    flushes: bool,
    slices: usize,
    wakers: Vec<Waker>,
}

#[derive(Clone, Debug, Default)]
pub struct Scripted(Rc<RefCell<State>>);

impl Scripted {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.borrow_mut());
        let wakers = std::mem::take(&mut self.0.borrow_mut().wakers);
        wakers.into_iter().for_each(Waker::wake);
    }

    pub fn send(&self, bytes: &[u8]) {
        self.change(|state| state.sent.extend(bytes));
    }

    pub fn end(&self) {
        self.change(|state| state.is_ended = true);
    }

    pub fn accept(&self, bytes: usize) {
        self.change(|state| state.room += bytes);
    }

    pub fn let_flush(&self) {
        self.change(|state| state.flushes = true);
    }

    pub fn got(&self) -> Vec<u8> {
        self.0.borrow().got.clone()
    }

    /// The number of slices of the last vectored write.
    pub fn slices(&self) -> usize {
        self.0.borrow().slices
    }

    fn try_read(&self, context: &Context<'_>, most: usize) -> Poll<Vec<u8>> {
        let mut state = self.0.borrow_mut();
        if state.sent.is_empty() && !state.is_ended {
            state.wakers.push(context.waker().clone());
            return Poll::Pending;
        }
        let bytes = most.min(state.sent.len());
        Poll::Ready(state.sent.drain(..bytes).collect())
    }

    fn try_write(&self, context: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.0.borrow_mut();
        if state.room == 0 {
            state.wakers.push(context.waker().clone());
            return Poll::Pending;
        }
        let taken = bytes.len().min(state.room);
        state.room -= taken;
        state.got.extend(&bytes[..taken]);
        Poll::Ready(Ok(taken))
    }

    fn try_write_all(
        &self,
        context: &Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().slices = slices.len();
        let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
        self.try_write(context, &bytes)
    }

    fn try_flush(&self, context: &Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.borrow_mut();
        if !state.flushes {
            state.wakers.push(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }
}

impl tokio::io::AsyncRead for Scripted {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = self.try_read(context, buffer.remaining());
        read.map(|bytes| {
            buffer.put_slice(&bytes);
            Ok(())
        })
    }
}

impl tokio::io::AsyncWrite for Scripted {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.try_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.try_write_all(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.try_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.try_flush(context)
    }
}

impl futures_lite::AsyncRead for Scripted {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let read = self.try_read(context, buffer.len());
        read.map(|bytes| {
            buffer[..bytes.len()].copy_from_slice(&bytes);
            Ok(bytes.len())
        })
    }
}

impl futures_lite::AsyncWrite for Scripted {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.try_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.try_write_all(context, slices)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.try_flush(context)
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.try_flush(context)
    }
}
