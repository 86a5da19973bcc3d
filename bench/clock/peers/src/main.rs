// SPDX-License-Identifier: MIT
//
// The cost of clocks in Rust programs: lines "name, tab, ns", as bench-clock --counter prints them.
// bench/clock/peers.py runs it.
use std::hint::black_box;
use std::time::Instant;

const TIMES: u32 = 20000;
const ROUNDS: u32 = 15;

fn measure<T>(name: &str, mut read: impl FnMut() -> T) {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let began = Instant::now();
        for _ in 0..TIMES {
            black_box(read());
        }
        best = best.min(began.elapsed().as_nanos() as f64 / TIMES as f64);
    }
    println!("{name}\t{best:.2}");
}

fn main() {
    // Both calibrate themselves on first use.
    black_box(fastant::Instant::now());
    let clock = quanta::Clock::new();
    measure("fastant Instant::now", fastant::Instant::now);
    measure("quanta Instant::now", quanta::Instant::now);
    measure("quanta Clock::now", || clock.now());
    measure("Rust std Instant::now", Instant::now);
    if !fastant::is_tsc_available() {
        println!("# fastant does not use the counter here");
    }
}
