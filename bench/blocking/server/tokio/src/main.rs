// SPDX-License-Identifier: MIT
//! The server of server.c, with tokio. The argument selects where the blocking call runs: "inline"
//! in the task, as in code that is unaware of it, or by "spawn_blocking", as it should.
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const NAP: Duration = Duration::from_millis(5);

async fn session(mut peer: TcpStream, inline: bool) -> std::io::Result<()> {
    let mut buf = [0u8; 1];
    peer.set_nodelay(true)?;
    while peer.read(&mut buf).await? == 1 {
        if buf[0] == b's' {
            if inline {
                std::thread::sleep(NAP);
            } else {
                tokio::task::spawn_blocking(|| std::thread::sleep(NAP)).await?;
            }
        }
        peer.write_all(&buf).await?;
    }
    Ok(())
}

fn main() -> std::io::Result<()> {
    let inline = match std::env::args().nth(1).as_deref() {
        Some("inline") => true,
        Some("spawn_blocking") => false,
        _ => panic!("usage: blocking-server inline|spawn_blocking"),
    };
    // The runtime has as many workers as the other servers have processors.
    let workers = std::env::var("TOKIO_WORKERS").map_or(2, |n| n.parse().expect("a number"));
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_io()
        .build()?
        .block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            println!("{}", listener.local_addr()?.port());
            loop {
                let (peer, _) = listener.accept().await?;
                tokio::spawn(session(peer, inline));
            }
        })
}
