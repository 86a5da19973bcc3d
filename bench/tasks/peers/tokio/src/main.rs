// SPDX-License-Identifier: MIT
//
// The rows of bench-tasks with tokio: tasks ROW PROCESSORS prints one number, see tasks.py. tokio
// has no unbuffered channels: ping-pong uses two channels of capacity 1. Nor can a channel have
// several receivers: buffered-4 shares the receiver under tokio's mutex.
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, Mutex, Notify, Semaphore};

fn per_op(began: Instant, n: usize) -> f64 {
    began.elapsed().as_nanos() as f64 / n as f64
}

async fn spawn_all() -> f64 {
    let n = 1_000_000;
    let began = Instant::now();
    let tasks: Vec<_> = (0..n).map(|_| tokio::spawn(async {})).collect();
    for task in tasks {
        task.await.unwrap();
    }
    per_op(began, n)
}

async fn spawn_group() -> f64 {
    let n = 1_000_000;
    let began = Instant::now();
    let all = Arc::new((AtomicUsize::new(n), Notify::new()));
    for _ in 0..n {
        let all = all.clone();
        tokio::spawn(async move {
            if all.0.fetch_sub(1, Ordering::AcqRel) == 1 {
                all.1.notify_one();
            }
        });
    }
    all.1.notified().await;
    per_op(began, n)
}

async fn spawn_join() -> f64 {
    let n = 300_000;
    let began = Instant::now();
    for _ in 0..n {
        tokio::spawn(async {}).await.unwrap();
    }
    per_op(began, n)
}

async fn yields() -> f64 {
    let n = 1_000_000;
    let began = Instant::now();
    let two: Vec<_> = (0..2)
        .map(|_| {
            tokio::spawn(async move {
                for _ in 0..n {
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for task in two {
        task.await.unwrap();
    }
    per_op(began, 2 * n)
}

async fn ping_pong() -> f64 {
    let n = 500_000;
    let (ping, mut ping_out) = mpsc::channel::<usize>(1);
    let (pong, mut pong_out) = mpsc::channel::<usize>(1);
    tokio::spawn(async move {
        while let Some(v) = ping_out.recv().await {
            pong.send(v).await.unwrap();
        }
    });
    let began = Instant::now();
    for i in 0..n {
        ping.send(i).await.unwrap();
        pong_out.recv().await.unwrap();
    }
    per_op(began, n)
}

async fn buffered(pairs: usize) -> f64 {
    let n = 2_000_000;
    let (send, receive) = mpsc::channel::<usize>(128);
    let receive = Arc::new(Mutex::new(receive));
    let mut tasks = Vec::new();
    let began = Instant::now();
    for _ in 0..pairs {
        let send = send.clone();
        tasks.push(tokio::spawn(async move {
            for i in 0..n / pairs {
                send.send(i).await.unwrap();
            }
        }));
        let receive = receive.clone();
        tasks.push(tokio::spawn(async move {
            if pairs == 1 {
                let mut mine = receive.lock().await;
                while mine.recv().await.is_some() {}
            } else {
                while receive.lock().await.recv().await.is_some() {}
            }
        }));
    }
    drop(send);
    for task in tasks {
        task.await.unwrap();
    }
    per_op(began, n)
}

async fn mutex() -> f64 {
    let n = 4_000_000;
    let count = Arc::new(Mutex::new(0usize));
    let mut tasks = Vec::new();
    let began = Instant::now();
    for _ in 0..8 {
        let count = count.clone();
        tasks.push(tokio::spawn(async move {
            for _ in 0..n / 8 {
                *count.lock().await += 1;
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    per_op(began, n)
}

async fn select_of_4() -> f64 {
    let n = 500_000;
    let mut receivers = Vec::new();
    for _ in 0..4 {
        let (send, receive) = mpsc::channel::<usize>(1);
        receivers.push(receive);
        tokio::spawn(async move {
            for i in 0..n {
                if send.send(i).await.is_err() {
                    break;
                }
            }
        });
    }
    let mut d = receivers.pop().unwrap();
    let mut c = receivers.pop().unwrap();
    let mut b = receivers.pop().unwrap();
    let mut a = receivers.pop().unwrap();
    let began = Instant::now();
    for _ in 0..n {
        tokio::select! {
            _ = a.recv() => {}
            _ = b.recv() => {}
            _ = c.recv() => {}
            _ = d.recv() => {}
        }
    }
    per_op(began, n)
}

fn leaf(up: mpsc::Sender<usize>, from: usize, size: usize) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        if size == 1 {
            up.send(from).await.unwrap();
            return;
        }
        let (send, mut receive) = mpsc::channel(1);
        for i in 0..10 {
            tokio::spawn(leaf(send.clone(), from + i * (size / 10), size / 10));
        }
        let mut sum = 0;
        for _ in 0..10 {
            sum += receive.recv().await.unwrap();
        }
        up.send(sum).await.unwrap();
    })
}

async fn skynet() -> f64 {
    let (send, mut receive) = mpsc::channel(1);
    let began = Instant::now();
    tokio::spawn(leaf(send, 0, 1_000_000));
    assert_eq!(receive.recv().await, Some(499_999_500_000));
    per_op(began, 1)
}

fn cpu() -> f64 {
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let ns = |t: libc::timeval| t.tv_sec as f64 * 1e9 + t.tv_usec as f64 * 1e3;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

async fn sleeps() -> f64 {
    let n = 1_000_000;
    let began = cpu();
    let tasks: Vec<_> = (0..n)
        .map(|_| tokio::spawn(async { tokio::time::sleep(Duration::from_secs(1)).await }))
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    (cpu() - began) / n as f64
}

fn resident() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: f64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096.0
}

async fn idle_bytes() -> f64 {
    let n = 200_000;
    let never = Arc::new(Semaphore::new(0));
    let before = resident();
    for _ in 0..n {
        let never = never.clone();
        tokio::spawn(async move {
            let _ = never.acquire().await;
        });
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    (resident() - before) / n as f64
}

async fn run(row: &str) -> f64 {
    match row {
        "spawn-all" => spawn_all().await,
        "spawn-group" => spawn_group().await,
        "spawn-join" => spawn_join().await,
        "yield" => yields().await,
        "ping-pong" => ping_pong().await,
        "buffered-1" => buffered(1).await,
        "buffered-4" => buffered(4).await,
        "mutex-8" => mutex().await,
        "select-4" => select_of_4().await,
        "skynet" => skynet().await,
        "sleeps" => sleeps().await,
        "idle-task" => idle_bytes().await,
        _ => panic!("unknown row"),
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(arguments[2].parse().unwrap())
        .enable_time()
        .build()
        .unwrap();
    let row = arguments[1].clone();
    // Runs in a task, like the other peers, because block_on() itself would run outside the
    // workers.
    println!("{}", runtime.block_on(async move { tokio::spawn(async move { run(&row).await }).await.unwrap() }));
    std::process::exit(0);
}
