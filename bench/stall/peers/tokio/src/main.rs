// SPDX-License-Identifier: MIT
//! The server of ../server.c, with tokio. The hogs block or compute in their tasks, as code does
//! that is unaware of them.
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

extern "C" {
    fn usleep(us: u32) -> i32;
}

fn number(index: usize) -> f64 {
    std::env::args().nth(index).expect("an argument").parse().expect("a number")
}

#[inline(never)]
fn compute(iterations: u64) -> u64 {
    let mut x: u64 = 88172645463325252;
    for _ in 0..iterations {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    x
}

async fn hog(index: u32, start: Instant) {
    let computes = std::env::args().nth(2).as_deref() == Some("compute");
    let (ms, period) = (number(3), Duration::from_secs_f64(number(4) / 1e3));
    let iterations = (ms * number(6)) as u64;
    let mut next = start + index * Duration::from_secs_f64(number(5) / 1e3);
    loop {
        while next <= Instant::now() {
            next += period;
        }
        tokio::time::sleep_until(next.into()).await;
        if computes {
            std::hint::black_box(compute(iterations));
        } else {
            unsafe { usleep((ms * 1e3) as u32) };
        }
    }
}

async fn session(mut peer: TcpStream) -> std::io::Result<()> {
    let mut buf = [0u8; 4096];
    peer.set_nodelay(true)?;
    loop {
        let n = peer.read(&mut buf).await?;
        if n == 0 {
            return Ok(());
        }
        peer.write_all(&buf[..n]).await?;
    }
}

fn main() -> std::io::Result<()> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(number(1) as usize)
        .enable_all()
        .build()?
        .block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            println!("{}", listener.local_addr()?.port());
            if std::env::args().count() > 2 {
                let start = Instant::now();
                for index in 0..2 {
                    tokio::spawn(hog(index, start));
                }
            }
            // A task, because the thread of block_on() is not one of the workers.
            tokio::spawn(async move {
                while let Ok((peer, _)) = listener.accept().await {
                    tokio::spawn(session(peer));
                }
            })
            .await?;
            Ok(())
        })
}
