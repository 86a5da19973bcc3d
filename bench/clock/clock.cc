// SPDX-License-Identifier: MIT
//
// The cost of each clock, in one run: sennit's call, libc's, the vDSO's function through a bare
// pointer, and the system call. `make bench-clock` runs it for x86_64 and i386 and prints the
// ratios; without arguments it prints the same for the architecture that it was built for.
//
// The table is that of bionic's change to time() (every clock id, gettimeofday, time), plus what
// only sennit has. The rows are measured in turns, ROUNDS times, and each cell is its smallest
// mean, so other load shows only if it disturbs every round. The timer is Google Benchmark on
// x86_64. On i386, and with --plain anywhere, a similar loop replaces it: Debian has that library
// for i386 only as a package of a foreign architecture, which would have to be enabled on the whole
// machine, and building it from its source package is too much for this one table.
//
// --time measures only the row of time(), where every jump counts. bench-clock-shared, which is
// linked with the shared library, measures it with and without the preload library.
//
// --counter measures sennit's and libc's monotonic clocks and the bare counter, with that loop, and
// prints them for peers.py, which runs it beside clocks of Rust and Go.

#include <dlfcn.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#ifdef SENNIT_GOOGLE_BENCHMARK
#	include <benchmark/benchmark.h>
#endif

extern "C" {
#include <sennit/clock.h>
#include <sennit/vdso.h>

#include "arch/machine_clock.h"
}

namespace
{

template <typename T>
inline void keep(T value)
{
	asm volatile("" : : "g"(value) : "memory");
}

using Loop = void (*)(int64_t times);

struct Cell {
	std::string row, column;
	std::function<void(int64_t)> loop;
	double ns = 0;
};

std::vector<Cell> cells;

// One loop per cell, compiled with the call in it, so that only the call is repeated.
#define CELL(row, column, ...)                             \
	cells.push_back({row, column, [=](int64_t times) { \
				 while (times-- > 0) {     \
					 __VA_ARGS__;      \
				 }                         \
			 }})

template <typename Function>
Function in_vdso(const char *name)
{
	static struct sn_vdso vdso;
	static bool present = sn_vdso_self(&vdso) == 0;
	std::string full = std::string(SN_VDSO_PREFIX) + name;

	return present ? reinterpret_cast<Function>(
				 sn_vdso_find(&vdso, SN_VDSO_VERSION, full.c_str()))
		       : nullptr;
}

const struct {
	int id;
	const char *name;
} clocks[] = {
	{CLOCK_REALTIME, "REALTIME"},
	{CLOCK_MONOTONIC, "MONOTONIC"},
	{CLOCK_PROCESS_CPUTIME_ID, "PROCESS_CPUTIME_ID"},
	{CLOCK_THREAD_CPUTIME_ID, "THREAD_CPUTIME_ID"},
	{CLOCK_MONOTONIC_RAW, "MONOTONIC_RAW"},
	{CLOCK_REALTIME_COARSE, "REALTIME_COARSE"},
	{CLOCK_MONOTONIC_COARSE, "MONOTONIC_COARSE"},
	{CLOCK_BOOTTIME, "BOOTTIME"},
	{CLOCK_TAI, "TAI"},
};

// The bare counter read with which the tick clock is compared. It is ordered, as a clock must be
// whose values threads compare; it is one number of 64 bits; and it takes one call, like the clock.
[[gnu::noinline]] uint64_t counter()
{
	return sn_counter();
}

void make_cells()
{
	using Gettime = int (*)(int, void *);
	using Seconds = long (*)(long *);
	using Day = int (*)(void *, void *);
	using Cpu = long (*)(unsigned *, unsigned *, void *);

	// If the vDSO has two functions, takes the one with 64-bit time, which returns the same as
	// sennit.
	auto gettime = in_vdso<Gettime>("clock_gettime");
	long number = SYS_clock_gettime;
#ifdef SYS_clock_gettime64
	if (auto wide = in_vdso<Gettime>("clock_gettime64"))
		gettime = wide;
	number = SYS_clock_gettime64;
#endif
	auto getres = in_vdso<Gettime>("clock_getres");
	auto seconds = in_vdso<Seconds>("time");
	auto day = in_vdso<Day>("gettimeofday");
	auto cpu = in_vdso<Cpu>("getcpu");
	static int64_t buffer[64];
	void *out = buffer;
	auto *ours = reinterpret_cast<struct sn_timespec *>(buffer);
	auto *theirs = reinterpret_cast<struct timespec *>(buffer);
	auto *our_day = reinterpret_cast<struct sn_timeval *>(buffer);
	auto *their_day = reinterpret_cast<struct timeval *>(buffer);
	auto *number_out = reinterpret_cast<unsigned *>(buffer);

	for (auto clock : clocks) {
		int id = clock.id;

		CELL(clock.name, "sennit", keep(sn_clock_gettime(id, ours)));
		CELL(clock.name, "libc", keep(clock_gettime(id, theirs)));
		if (gettime)
			CELL(clock.name, "vDSO", keep(gettime(id, out)));
		CELL(clock.name, "syscall", keep(syscall(number, id, out)));
	}
	CELL("clock_getres", "sennit", keep(sn_clock_getres(CLOCK_MONOTONIC, ours)));
	CELL("clock_getres", "libc", keep(clock_getres(CLOCK_MONOTONIC, theirs)));
	if (getres)
		CELL("clock_getres", "vDSO", keep(getres(CLOCK_MONOTONIC, out)));
	CELL("clock_getres", "syscall", keep(syscall(SYS_clock_getres, CLOCK_MONOTONIC, out)));

	CELL("gettimeofday", "sennit", keep(sn_gettimeofday(our_day, nullptr)));
	CELL("gettimeofday", "libc", keep(gettimeofday(their_day, nullptr)));
	if (day)
		CELL("gettimeofday", "vDSO", keep(day(out, nullptr)));
	CELL("gettimeofday", "syscall", keep(syscall(SYS_gettimeofday, out, nullptr)));

	CELL("time", "sennit", keep(sn_time()));
	CELL("time", "libc", keep(time(nullptr)));
	if (seconds)
		CELL("time", "vDSO", keep(seconds(nullptr)));
#ifdef SYS_time
	CELL("time", "syscall", keep(syscall(SYS_time, nullptr)));
#endif

	// libc has no call that returns nanoseconds in one number; the nearest is clock_gettime.
	CELL("sn_now", "sennit", keep(sn_now()));
	CELL("sn_now", "libc", keep(clock_gettime(CLOCK_MONOTONIC, theirs)));
	if (gettime)
		CELL("sn_now", "vDSO", keep(gettime(CLOCK_MONOTONIC, out)));
	CELL("sn_now", "syscall", keep(syscall(number, CLOCK_MONOTONIC, out)));
	CELL("sn_walltime", "sennit", keep(sn_walltime()));
	CELL("sn_walltime", "libc", keep(clock_gettime(CLOCK_REALTIME, theirs)));
	if (gettime)
		CELL("sn_walltime", "vDSO", keep(gettime(CLOCK_REALTIME, out)));
	CELL("sn_walltime", "syscall", keep(syscall(number, CLOCK_REALTIME, out)));

	CELL("getcpu", "sennit", keep(sn_getcpu(number_out, nullptr)));
	CELL("getcpu", "libc", keep(getcpu(number_out, nullptr)));
	if (cpu)
		CELL("getcpu", "vDSO", keep(cpu(number_out, nullptr, nullptr)));
	CELL("getcpu", "syscall", keep(syscall(SYS_getcpu, out, nullptr, nullptr)));

	CELL("16 random bytes", "sennit", keep(sn_getrandom(out, 16, 0)));
	CELL("16 random bytes", "libc", keep(getrandom(out, 16, 0)));
	CELL("16 random bytes", "syscall", keep(syscall(SYS_getrandom, out, 16, 0)));

	CELL("counter", "sn_ticks_now", keep(sn_ticks_now()));
	CELL("counter", "sn_ticks", keep(sn_ticks()));
	CELL("counter", "bare counter, called", keep(counter()));
	CELL("counter", "bare counter, inline", keep(sn_counter()));
#if defined(__x86_64__) || defined(__i386__)
	CELL("counter", "rdtsc, unordered", keep(__builtin_ia32_rdtsc()));
#endif
}

const Cell *find(const std::string &row, const std::string &column)
{
	for (const Cell &cell : cells)
		if (cell.row == row && cell.column == column && cell.ns > 0)
			return &cell;
	return nullptr;
}

void print_table()
{
	static const char *const columns[] = {"sennit", "libc", "vDSO", "syscall"};
	std::vector<std::string> rows;

	for (const Cell &cell : cells)
		if (cell.row != "counter" &&
		    std::find(rows.begin(), rows.end(), cell.row) == rows.end())
			rows.push_back(cell.row);
	std::printf("\n%s, ns a call, and how many times sennit's the others' are\n",
#if defined(__x86_64__)
		    "x86_64"
#elif defined(__i386__)
		    "i386"
#elif defined(__aarch64__)
		    "aarch64"
#elif defined(__riscv)
		    "riscv64"
#elif defined(__arm__)
		    "arm"
#else
		    "another architecture"
#endif
	);
	std::printf("%-20s", "");
	for (const char *column : columns)
		std::printf("%9s", column);
	std::printf("   %8s%8s%8s\n", "libc", "vDSO", "syscall");
	for (const std::string &row : rows) {
		const Cell *ours = find(row, "sennit");
		std::printf("%-20s", row.c_str());
		for (const char *column : columns) {
			const Cell *cell = find(row, column);
			cell ? std::printf("%9.1f", cell->ns) : std::printf("%9s", "-");
		}
		std::printf("   ");
		for (const char *column : {"libc", "vDSO", "syscall"}) {
			const Cell *cell = find(row, column);
			cell &&ours ? std::printf("%7.2fx", cell->ns / ours->ns)
				    : std::printf("%8s", "-");
		}
		std::printf("\n");
	}
	if (!find("counter", "sn_ticks_now"))
		return;
	std::printf("\nthe counter, and how many times sn_ticks_now's each is\n");
	for (const Cell &cell : cells)
		if (cell.row == "counter")
			std::printf("%-22s%7.1f%29.2fx\n", cell.column.c_str(), cell.ns,
				    cell.ns / find("counter", "sn_ticks_now")->ns);
	for (int call = 0; call < SN_CLOCK_CALLS; call++)
		if (call == SN_CLOCK_CALL_WALLTIME || call == SN_CLOCK_CALL_TICKS_NOW)
			std::printf("%s takes the %s\n",
				    call == SN_CLOCK_CALL_WALLTIME ? "sn_walltime" : "sn_ticks_now",
				    sn_clock_source_name(
					    sn_clock_source(static_cast<sn_clock_call>(call))));
}

constexpr int ROUNDS = 15;

void measure_plainly()
{
	for (int round = 0; round < ROUNDS; round++) {
		for (Cell &cell : cells) {
			constexpr int64_t times = 20000;
			int64_t begin = sn_now();
			cell.loop(times);
			double ns = static_cast<double>(sn_now() - begin) / times;
			if (round == 0 || ns < cell.ns)
				cell.ns = ns;
		}
	}
}

#ifdef SENNIT_GOOGLE_BENCHMARK
// Keeps each cell's smallest repetition; the table is printed at the end.
class Keeper : public benchmark::BenchmarkReporter
{
public:
	bool ReportContext(const Context &) override { return true; }
	void ReportRuns(const std::vector<Run> &runs) override
	{
		for (const Run &run : runs) {
			if (run.run_type != Run::RT_Iteration)
				continue;
			for (Cell &cell : cells) {
				if (cell.row + "/" + cell.column != run.run_name.function_name)
					continue;
				// The adjusted time is that of one batch.
				double ns = run.GetAdjustedCPUTime() / 100;
				if (cell.ns == 0 || ns < cell.ns)
					cell.ns = ns;
			}
		}
	}
};

void measure_with_google(int argc, char **argv)
{
	benchmark::Initialize(&argc, argv);
	for (Cell &cell : cells)
		benchmark::RegisterBenchmark((cell.row + "/" + cell.column).c_str(),
					     [&cell](benchmark::State &state) {
						     // Reads in batches, so that the framework's
						     // own step does not add to clocks that take 3
						     // ns.
						     for (auto _ : state)
							     cell.loop(100);
					     })
			->Repetitions(ROUNDS)
			->MinTime(0.002);
	Keeper keeper;
	benchmark::RunSpecifiedBenchmarks(&keeper);
}
#endif

} // namespace

int main(int argc, char **argv)
{
	make_cells();
	// Waits until the counter's clock is past its first 20 ms.
	for (int64_t begin = sn_now(); sn_now() - begin < 50000000;)
		keep(sn_ticks_now());
	if (argc > 1 && std::strcmp(argv[1], "--counter") == 0) {
		std::erase_if(cells, [](const Cell &cell) {
			return cell.row != "counter" &&
			       (cell.row != "sn_now" || cell.column == "syscall");
		});
		measure_plainly();
		for (const Cell &cell : cells)
			if (cell.row == "counter")
				std::printf("%s\t%.2f\n", cell.column.c_str(), cell.ns);
			else if (cell.column == "sennit")
				std::printf("sn_now\t%.2f\n", cell.ns);
			else
				std::printf("%s clock_gettime\t%.2f\n", cell.column.c_str(),
					    cell.ns);
		return 0;
	}
	if (argc > 1 && std::strcmp(argv[1], "--time") == 0) {
		std::erase_if(cells, [](const Cell &cell) { return cell.row != "time"; });
		measure_plainly();
		print_table();
		return 0;
	}
#ifdef SENNIT_GOOGLE_BENCHMARK
	if (argc < 2 || std::strcmp(argv[1], "--plain") != 0)
		measure_with_google(argc, argv);
	else
#endif
		measure_plainly();
	(void)argc, (void)argv;
	print_table();
	return 0;
}
