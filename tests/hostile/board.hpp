// SPDX-License-Identifier: MIT
//
// The state of a run, in memory that the process under test shares with its parent, so that the
// parent can report the state even if the process has crashed or hangs. The counters are atomic;
// tasks and plain threads may read and write them.
#ifndef SENNIT_TESTS_HOSTILE_BOARD_HPP
#define SENNIT_TESTS_HOSTILE_BOARD_HPP

#include <atomic>
#include <cstdint>

#include "hostile/bounds.hpp"

namespace hostile
{

// What the driver does to the process (driver.hpp).
enum Action {
	ACT_MASK,
	ACT_QUOTA,
	ACT_NOFILE,
	ACT_NPROC,
	ACT_MEMORY,
	ACT_MLOCK,
	ACT_STOP,
	ACT_GDB,
	ACT_FORK,
	ACT_FORK_TASK,
	ACT_DUMP,
	ACT_SIGNAL,
	ACT_FLOOD,
	ACT_STDERR,
	ACTIONS
};
struct ActionName {
	const char *name, *meaning;
};
constexpr ActionName action_names[ACTIONS] = {
	{"mask", "the CPU mask of all threads shrinks, and grows again"},
	{"quota", "cpu.max of the cgroup falls, and rises again"},
	{"nofile", "RLIMIT_NOFILE falls to what is open, and rises again"},
	{"nproc", "RLIMIT_NPROC falls to 1, and rises again"},
	{"memory", "RLIMIT_AS falls to what is mapped, and rises again"},
	{"mlock", "mlockall(), and munlockall()"},
	{"stop", "SIGSTOP, and SIGCONT"},
	{"gdb", "gdb attaches, and detaches"},
	{"fork", "a plain thread forks; sn_run() in the child"},
	{"fork-task", "a task forks; sn_run() in the child"},
	{"dump", "SIGQUIT"},
	{"signal", "SIGUSR1 for sn_signal_wait()"},
	{"flood", "plain threads spawn tasks and send as fast as they can"},
	{"stderr", "stderr is a full pipe, also while the run ends"},
};

// What the tasks do (loads.hpp).
enum Load {
	LOAD_PROBES,
	LOAD_CHANNELS,
	LOAD_MUTEX,
	LOAD_NAPPERS,
	LOAD_SLEEPERS,
	LOAD_ALARMS,
	LOAD_JOINS,
	LOAD_ECHO,
	LOAD_RELAY,
	LOAD_BLOCKING,
	LOAD_HOGS,
	LOAD_CROWD,
	LOAD_PINNED,
	LOAD_SCAN,
	LOAD_VISITORS,
	LOAD_SELECT,
	LOAD_BRACKET,
	LOAD_GO,
	LOAD_PIN,
	LOAD_CANCELED,
	LOAD_FAST,
	LOADS
};
struct LoadName {
	const char *name, *meaning;
};
constexpr LoadName load_names[LOADS] = {
	{"probes", "what the watchdog measures; in every phase"},
	{"channels", "producers and consumers, also through sn_select()"},
	{"mutex", "a counter under sn_mutex"},
	{"nappers", "1,000 tasks that compute for 5 us and sleep for 1 ms"},
	{"sleepers", "100 tasks that sleep for up to 2 s"},
	{"alarms", "alarms that fire or are stopped"},
	{"joins", "tasks that spawn and join others"},
	{"echo", "TCP connections over loopback"},
	{"relay", "sn_relay() between TCP connections, checked to the byte"},
	{"blocking", "usleep() and read() with and without brackets"},
	{"hogs", "tasks that compute for up to 40 ms"},
	{"crowd", "40, 400 or 10,000 tasks that yield"},
	{"pinned", "tasks that pin themselves, and end so or unpin"},
	{"scan", "sn_task_scan(), whose callback sends"},
	{"visitors", "sn_tasks_each(), also while the run ends; threads with slow destructors"},
	{"select", "a loop of sn_select() with SN_TRY"},
	{"bracket", "a loop of empty brackets"},
	{"go", "a loop of sn_go()"},
	{"pin", "a loop of sn_pin() and sn_unpin()"},
	{"canceled", "a loop that tries a cancelled sn_sleep() again"},
	{"fast", "a loop of sn_blocking() around something fast"},
};

struct Board {
	uint64_t seed;
	std::atomic<int64_t> beat;      // the time of the watchdog's last look
	std::atomic<bool> failed, done; // only the first failure is reported
	char failure[1024];

	std::atomic<uint32_t> notes; // how many were written; note[] keeps the last 32
	struct Note {
		int64_t at;
		char text[100];
	} note[32];

	std::atomic<uint64_t> made[ACTIONS], skipped[ACTIONS];
	std::atomic<uint64_t> alive[LOADS], operations[LOADS], refused[LOADS], begun[LOADS];
	std::atomic<uint64_t> measured[KINDS], too_long[KINDS];
	std::atomic<int64_t> worst[KINDS], worst_counted[KINDS];
	std::atomic<uint64_t> plain_measured[PLAINS];
	std::atomic<int64_t> plain_worst[PLAINS];
	std::atomic<int64_t> os_kept; // ns in which the system kept threads from running
	std::atomic<uint64_t> phases, lives;
	std::atomic<int> forked_step; // what the child of a fork does at the moment: forked.cc

	char skips[ACTIONS][100]; // why each action is left out; written before there are threads
};

// Made by board_make(), before the process under test is forked.
extern Board *board;

void board_make(uint64_t seed);

// CLOCK_MONOTONIC, as libc reads it.
int64_t now();

// Records an action of the test. Any thread may call it.
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * Reports that something is wrong: the parent prints all that is known and ends the process, and
 * the caller waits for that. Any thread or task may call it.
 */
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

template <class T>
void raise_to(std::atomic<T> &most, T value)
{
	T former = most.load(std::memory_order_relaxed);

	while (former < value &&
	       !most.compare_exchange_weak(former, value, std::memory_order_relaxed))
		;
}

// Prints what was done and measured, and a line for programs to read.
void report();
// Prints what the driver did last, and the state of the loads.
void report_failure();

// Makes stderr a full pipe, if there are descriptors for it; stderr_again() undoes that.
bool stderr_full();
void stderr_again();

} // namespace hostile

#endif
