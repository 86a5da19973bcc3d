// SPDX-License-Identifier: MIT
//
// The server of bench/udp with tokio: one task echoes datagrams, one at a time. The argument is the
// number of worker threads.
use std::io::Read;
use tokio::net::UdpSocket;

async fn serve() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    println!("{}", socket.local_addr().unwrap().port());
    std::thread::spawn(|| {
        let mut byte = [0];
        while matches!(std::io::stdin().read(&mut byte), Ok(n) if n > 0) {}
        std::process::exit(0);
    });
    let mut buf = [0; 2048];
    loop {
        let (n, peer) = socket.recv_from(&mut buf).await.unwrap();
        socket.send_to(&buf[..n], peer).await.unwrap();
    }
}

fn main() {
    let workers: usize = std::env::args().nth(1).unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_io()
        .build()
        .unwrap();
    runtime.block_on(async { tokio::spawn(serve()).await.unwrap() });
}
