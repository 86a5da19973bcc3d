// SPDX-License-Identifier: MIT
#include "hostile/driver.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sennit/sennit.h>

#include "hostile/board.hpp"
#include "hostile/forked.hpp"
#include "hostile/loads.hpp"
#include "hostile/outer.hpp"
#include "hostile/probes.hpp"
#include "hostile/quota.hpp"
#include "hostile/random.hpp"
#include "hostile/watch.hpp"

namespace hostile
{
namespace
{

Random random_(0);
uint32_t enabled;
std::atomic<uint32_t> had;

// ---- the runtime, as plain threads use it ----

std::atomic<bool> open_; // set while a life of the runtime has begun, and is not about to end
std::atomic<int> users;

// While an object of this class exists, and converts to true, the life does not end.
class Use
{
public:
	Use()
	{
		users++;
		if (!(good_ = open_.load()))
			users--;
	}
	~Use()
	{
		if (good_)
			users--;
	}
	Use(const Use &) = delete;
	Use &operator=(const Use &) = delete;
	explicit operator bool() const { return good_; }

private:
	bool good_;
};

// ---- floods, and bursts ----

constexpr int flooders = 3, most_flooded = scaled(5000);
std::atomic<int64_t> flood_until;
std::atomic<uint64_t> flood_spawned, flood_ran, flood_sent, flood_received;
sn_chan *flood_chan;
std::atomic<bool> flood_closed;

int flood_task(void *)
{
	flood_ran++;
	return 0;
}

void flood_once()
{
	const uint64_t mark = limits_mark();

	if (flood_spawned - flood_ran < (uint64_t)most_flooded) {
		flood_spawned++;
		const int error = sn_go(flood_task, nullptr);
		if (error < 0) {
			flood_spawned--;
			refused(LOAD_PROBES, "sn_go() of a flood", error, mark);
		}
	}
	if (sn_chan_try_send(flood_chan, nullptr) == 0)
		flood_sent++;
	else if (flood_spawned - flood_ran >= (uint64_t)most_flooded)
		usleep(100);
}

void flooder()
{
	prctl(PR_SET_NAME, "flooder");
	for (;;) {
		if (now() >= flood_until) {
			usleep(5000);
			continue;
		}
		Use use;
		if (use)
			flood_once();
	}
}

int flood_consumer(void *)
{
	while (sn_chan_recv(flood_chan, nullptr) == 0)
		flood_received++;
	flood_closed = true;
	return 0;
}

std::atomic<int> burst_left; // tasks of a burst that have not run

// Spawns tasks that all need stacks at the same time. Returns how many were refused.
int begin_burst()
{
	constexpr int tasks = 200;
	int refusals = 0;

	for (int i = 0; i < tasks; i++) {
		const uint64_t mark = limits_mark();

		burst_left++;
		const int error = sn_go(
			[](void *) {
				volatile char some[8192];

				some[0] = 1;
				some[sizeof some - 1] = some[0];
				sn_sleep(20 * ms);
				burst_left--;
				return 0;
			},
			nullptr);
		if (error < 0) {
			burst_left--;
			refusals++;
			refused(LOAD_PROBES, "sn_go() of a burst", error, mark);
		}
	}
	return refusals;
}

// Waits until all accepted tasks have run.
void end_burst()
{
	Slot slot(PHASE);

	slot.expect(now());
	while (burst_left > 0)
		usleep(1000);
	slot.met();
}

// ---- CPUs ----

cpu_set_t all_cpus;
std::vector<int> cpus;
DIR *threads;

// Sets the mask of every thread, including those that other threads are just starting.
bool set_mask(const cpu_set_t &mask)
{
	bool well = true;

	for (int round = 0; round < 2; round++) {
		rewinddir(threads);
		while (const struct dirent *entry = readdir(threads)) {
			const pid_t tid = (pid_t)strtol(entry->d_name, nullptr, 10);

			if (tid > 0 && sched_setaffinity(tid, sizeof mask, &mask) < 0 &&
			    errno != ESRCH)
				well = false;
		}
	}
	return well;
}

// ---- the changes in force, and their ends ----

enum Held {
	HELD_MASK,
	HELD_QUOTA,
	HELD_NOFILE,
	HELD_NPROC,
	HELD_MEMORY,
	HELD_MLOCK,
	HELD_STDERR,
	HELDS
};
int64_t held_until[HELDS]; // 0: not in force

struct rlimit former[HELDS];

bool lower(Held held, int resource, rlim_t to)
{
	struct rlimit limit;

	getrlimit(resource, &former[held]);
	limit = former[held];
	limit.rlim_cur = std::min(to, limit.rlim_max);
	limits_begin();
	if (setrlimit(resource, &limit) == 0)
		return true;
	limits_end();
	return false;
}

void raise(Held held, int resource)
{
	if (setrlimit(resource, &former[held]) < 0)
		fail("an error of the test: a limit cannot be raised again");
}

// Checks that calls that were refused succeed again soon; tasks that wait for stacks go first.
void recover()
{
	Slot slot(PHASE);
	Use use;

	slot.expect(now());
	while (use && begin_burst() > 0)
		usleep(5000);
	end_burst();
	slot.met();
}

long mapped()
{
	long pages = 0;
	FILE *file = fopen("/proc/self/statm", "re");

	if (file) {
		if (fscanf(file, "%ld", &pages) != 1)
			pages = 0;
		fclose(file);
	}
	return pages * sysconf(_SC_PAGESIZE);
}

void release(Held held)
{
	if (!held_until[held])
		return;
	held_until[held] = 0;
	switch (held) {
	case HELD_MASK:
		set_mask(all_cpus);
		note("mask: all CPUs again");
		return;
	case HELD_QUOTA:
		quota_set(0);
		note("quota: none again");
		return;
	case HELD_NOFILE:
		raise(held, RLIMIT_NOFILE);
		limits_end();
		note("nofile: as before");
		return;
	case HELD_NPROC:
		raise(held, RLIMIT_NPROC);
		limits_end();
		note("nproc: as before");
		return;
	case HELD_MEMORY:
		raise(held, RLIMIT_AS);
		note("memory: as before");
		break;
	case HELD_STDERR:
		stderr_again();
		note("stderr: as before");
		return;
	default:
		munlockall();
		note("mlock: unlocked");
	}
	recover();
	limits_end();
	watch_memory_limited(false);
}

// Ends the changes that must not be in force while a run ends.
void release_all()
{
	for (int i = 0; i < HELDS; i++)
		if (i != HELD_STDERR)
			release((Held)i);
}

bool limits_in_force()
{
	return held_until[HELD_NOFILE] || held_until[HELD_NPROC] || held_until[HELD_MEMORY] ||
	       held_until[HELD_MLOCK];
}

// ---- the changes: each returns whether it was made ----

bool change_mask()
{
	const size_t n = 1 + random_.below(cpus.size() - 1);
	std::vector<int> order = cpus;
	cpu_set_t mask;

	if (held_until[HELD_MASK])
		return false;
	random_.shuffle(order.data(), order.size());
	CPU_ZERO(&mask);
	for (size_t i = 0; i < n; i++)
		CPU_SET((size_t)order[i], &mask);
	// The runtime counts the CPUs once a second, so most changes last long enough to be
	// noticed.
	const int64_t time = random_.one_in(4) ? random_.between(ms, 100 * ms)
					       : random_.between(1200 * ms, 2500 * ms);
	note("mask: %zu of %zu CPUs for %lld ms", n, cpus.size(), (long long)(time / ms));
	held_until[HELD_MASK] = now() + time;
	return set_mask(mask);
}

bool change_quota()
{
	const long most = (long)cpus.size() * 100000;
	const long quota = (long)random_.between(most / 4 + 10000, most - 50000);
	const int64_t time = random_.between(1200 * ms, 2500 * ms);

	if (held_until[HELD_QUOTA] || !quota_set(quota))
		return false;
	note("quota: %ld of 100000 for %lld ms", quota, (long long)(time / ms));
	held_until[HELD_QUOTA] = now() + time;
	return true;
}

bool change_nofile()
{
	const int free = open("/dev/null", O_RDONLY | O_CLOEXEC);
	const int64_t time = random_.between(50 * ms, 800 * ms);
	const rlim_t to = (rlim_t)(free + random_.between(0, 4));

	if (free < 0)
		return false;
	close(free);
	if (held_until[HELD_NOFILE] || !lower(HELD_NOFILE, RLIMIT_NOFILE, to))
		return false;
	note("nofile: %d for %lld ms", (int)to, (long long)(time / ms));
	held_until[HELD_NOFILE] = now() + time;
	return true;
}

bool change_nproc()
{
	const int64_t time = random_.between(50 * ms, 800 * ms);

	if (held_until[HELD_NPROC] || !lower(HELD_NPROC, RLIMIT_NPROC, 1))
		return false;
	note("nproc: 1 for %lld ms", (long long)(time / ms));
	held_until[HELD_NPROC] = now() + time;
	return true;
}

bool change_memory()
{
	const int64_t time = random_.between(50 * ms, 800 * ms);
	const long more = (long)random_.between(0, 4 << 20);

	if (held_until[HELD_MEMORY] || held_until[HELD_MLOCK])
		return false;
	watch_memory_limited(true);
	if (!lower(HELD_MEMORY, RLIMIT_AS, (rlim_t)(mapped() + more))) {
		watch_memory_limited(false);
		return false;
	}
	note("memory: %ld KiB more for %lld ms", more >> 10, (long long)(time / ms));
	held_until[HELD_MEMORY] = now() + time;
	Use use;
	// Accepted tasks may wait for stacks until the limit is raised.
	if (use)
		note("memory: %d of a burst of tasks were refused", begin_burst());
	return true;
}

bool change_mlock()
{
	constexpr long most = 1 << 30;
	const int flags = MCL_CURRENT | MCL_FUTURE | (random_.one_in(3) ? MCL_ONFAULT : 0);
	const int64_t time = random_.between(50 * ms, 800 * ms);
	struct sn_run_stats stats;

	// While memory is locked, every mapping takes memory immediately.
	if (held_until[HELD_MLOCK] || held_until[HELD_MEMORY] || sn_run_stats(&stats) < 0 ||
	    (long)stats.stacks_mapped * (256 << 10) > most)
		return false;
	limits_begin();
	watch_memory_limited(true);
	if (mlockall(flags) < 0) {
		watch_memory_limited(false);
		limits_end();
		return false;
	}
	note("mlock: %s for %lld ms", flags & MCL_ONFAULT ? "what is touched" : "everything",
	     (long long)(time / ms));
	held_until[HELD_MLOCK] = now() + time;
	Use use;
	if (use) {
		note("mlock: %d of a burst of tasks were refused", begin_burst());
		end_burst();
	}
	return true;
}

bool change_stderr()
{
	const int64_t time = random_.between(50 * ms, 1500 * ms);

	if (held_until[HELD_STDERR] || !stderr_full())
		return false;
	note("stderr: full for %lld ms", (long long)(time / ms));
	held_until[HELD_STDERR] = now() + time;
	return true;
}

bool stop()
{
	const int time =
		(int)(random_.one_in(4) ? random_.between(300, 1000) : random_.between(1, 100));

	note("stop: for %d ms", time);
	return outer_ask("stop " + std::to_string(time));
}

bool attach_gdb()
{
	note("gdb");
	return outer_ask("gdb");
}

void await_child(pid_t child)
{
	const int64_t begun = now();
	int status;

	while (waitpid(child, &status, WNOHANG) == 0) {
		usleep(2000);
		if (watch_counted(begun) > (forked_seconds + 30) * second) {
			kill(child, SIGKILL);
			fail("fork: the child did not end");
		}
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status) != forked_well)
		fail("fork: the child: %s", forked_status(status).c_str());
}

bool fork_here()
{
	if (limits_in_force())
		return false;
	note("fork");
	const pid_t child = fork();
	if (child == 0)
		forked_main();
	if (child < 0)
		return false;
	await_child(child);
	return true;
}

std::atomic<pid_t> forked; // 0: not forked yet

bool fork_in_task()
{
	const int64_t begun = now();

	if (limits_in_force())
		return false;
	note("fork in a task");
	forked = 0;
	if (!probes_ask([] {
		    const pid_t child = fork();

		    if (child == 0)
			    forked_main();
		    forked = child;
	    }))
		return false;
	while (forked == 0) {
		usleep(1000);
		if (watch_counted(begun) > 20 * second)
			fail("fork: the task that should fork does not run");
	}
	if (forked < 0)
		return false;
	await_child(forked);
	return true;
}

bool dump()
{
	note("dump");
	return outer_ask("signal " + std::to_string(SIGQUIT));
}

bool signal_task()
{
	if (!probes_expect_signal())
		return false;
	note("signal");
	return outer_ask("signal " + std::to_string(SIGUSR1));
}

bool flood()
{
	const int64_t time = random_.between(100 * ms, 1500 * ms), until = now() + time;

	if (now() < flood_until)
		return false;
	note("flood: for %lld ms", (long long)(time / ms));
	watch_queue_more(most_flooded * piece + flooders * ms, until);
	flood_until = until;
	return true;
}

bool make_change(Action action)
{
	switch (action) {
	case ACT_MASK:
		return change_mask();
	case ACT_QUOTA:
		return change_quota();
	case ACT_NOFILE:
		return change_nofile();
	case ACT_NPROC:
		return change_nproc();
	case ACT_MEMORY:
		return change_memory();
	case ACT_MLOCK:
		return change_mlock();
	case ACT_STOP:
		return stop();
	case ACT_GDB:
		return attach_gdb();
	case ACT_FORK:
		return fork_here();
	case ACT_FORK_TASK:
		return fork_in_task();
	case ACT_DUMP:
		return dump();
	case ACT_SIGNAL:
		return signal_task();
	case ACT_STDERR:
		return change_stderr();
	default:
		return flood();
	}
}

// ---- the thread ----

std::atomic<bool> calm, is_calm; // requested, and reached: no change is in force

void drive()
{
	std::vector<Action> order;
	int64_t next = 0;
	size_t at = 0;

	prctl(PR_SET_NAME, "driver");
	for (int i = 0; i < ACTIONS; i++)
		if (enabled & (1u << i))
			order.push_back((Action)i);
	random_.shuffle(order.data(), order.size());
	for (;; usleep(2000)) {
		if (calm) {
			release_all();
			is_calm = true;
			continue;
		}
		is_calm = false;
		for (int i = 0; i < HELDS; i++)
			if (held_until[i] && now() >= held_until[i])
				release((Held)i);
		if (now() < next || order.empty() || !open_)
			continue;
		// A change that cannot be made now is tried again later.
		const Action action =
			at < order.size() ? order[at] : order[random_.below(order.size())];
		if (make_change(action)) {
			board->made[action]++;
			had |= 1u << action;
			at++;
			next = now() + random_.between(10 * ms, 400 * ms);
		} else {
			board->skipped[action]++;
			if (at < order.size())
				std::rotate(order.begin() + (long)at, order.begin() + (long)at + 1,
					    order.end());
			next = now() + 20 * ms;
		}
	}
}

} // namespace

void driver_start(uint64_t seed, uint32_t which)
{
	random_ = Random(seed);
	enabled = which;
	sched_getaffinity(0, sizeof all_cpus, &all_cpus);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET((size_t)i, &all_cpus))
			cpus.push_back(i);
	threads = opendir("/proc/self/task");
	if (!threads || cpus.size() < 2)
		enabled &= ~(1u << ACT_MASK);
	if (enabled & (1u << ACT_FLOOD))
		for (int i = 0; i < flooders; i++)
			std::thread(flooder).detach();
	std::thread(drive).detach();
}

void driver_life_begins()
{
	flood_chan = make_channel(0, 256);
	flood_closed = false;
	while (sn_go(flood_consumer, nullptr) < 0)
		sn_sleep(5 * ms);
	calm = false;
	open_ = true;
}

void driver_life_ends()
{
	calm = true;
	while (!is_calm)
		sn_sleep(2 * ms);
	open_ = false;
	flood_until = 0;
	while (users > 0)
		sn_sleep(2 * ms);
	sn_chan_close(flood_chan);
	while (!flood_closed || flood_spawned != flood_ran)
		sn_sleep(2 * ms);
	if (flood_sent != flood_received)
		fail("flood: %llu were sent, %llu received", (unsigned long long)flood_sent.load(),
		     (unsigned long long)flood_received.load());
	sn_chan_unref(flood_chan);
	is_calm = false;
}

bool driver_had_all()
{
	return (had & enabled) == enabled;
}

} // namespace hostile
