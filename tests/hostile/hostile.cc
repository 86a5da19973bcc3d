// SPDX-License-Identifier: MIT
//
// The hostile environment test. A process with tasks, timers, channels, locks, connections,
// blocking calls and a relay has to survive changes of its environment: fewer CPUs and more, lower
// limits, locked memory, SIGSTOP, gdb, forks, signals, floods of tasks from plain threads. During
// these changes:
//
//   - no wait is longer than promised, compared with the delays of plain threads at the same moment
//     (bounds.hpp, watch.hpp);
//   - nothing is lost: each message, byte, timer and task is counted (loads.hpp).
//
//	hostile [--seed N] [--seconds N | --hours N] [--only CHANGE,...] [--loads LOAD,...] [--procs N]
//	        [--list] [--help]
//
// Exits with 0; with 1 if something was wrong, after printing the seed, the last changes and dumps;
// with 2 for a wrong command line. The seed determines the changes and their order. The times
// depend on the machine.
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <sennit/sennit.h>

#include "hostile/board.hpp"
#include "hostile/driver.hpp"
#include "hostile/loads.hpp"
#include "hostile/outer.hpp"
#include "hostile/plain.hpp"
#include "hostile/probes.hpp"
#include "hostile/quota.hpp"
#include "hostile/watch.hpp"

namespace hostile
{
namespace
{

struct Options {
	uint64_t seed = 0;
	double seconds = std::getenv("SENNIT_TEST_QUICK") ? 6 : 12;
	uint32_t actions = (1u << ACTIONS) - 1, loads = (1u << LOADS) - 1;
	int processors = -1; // 0: as many as there are CPUs; -1: that, or a fixed number, at random
};
Options options;
int64_t ends;

// ---- phases and lives ----

std::atomic<Phase *> current{nullptr}; // the phase that has to be ended
std::atomic<int64_t> current_ends{0};
std::atomic<Slot *> current_slot{nullptr};

// Ends phases when their time is over, or later if something is late. This is a plain thread, so
// that it does not depend on the runtime.
void end_phases()
{
	prctl(PR_SET_NAME, "phases");
	for (;; usleep(5000)) {
		const int64_t due = current_ends.load(), at = now();

		if (!due || at < due || (watch_late() && at < due + 15 * second))
			continue;
		current_slot.load()->expect(at);
		current_ends = 0;
		current.load()->stop = true;
	}
}

// Chooses the loads of a phase: any of them in some phases, and at most one of the loops that use
// up all processors.
std::vector<Load> choose(Random &random, bool crowds)
{
	std::vector<Load> some, loops, loads = {LOAD_PROBES};

	for (int i = LOAD_PROBES + 1; i < LOADS; i++)
		if ((options.loads & (1u << i)) && (crowds || i != LOAD_CROWD))
			(i >= LOAD_SELECT ? loops : some).push_back((Load)i);
	random.shuffle(some.data(), some.size());
	const size_t n = std::min<size_t>(some.size(), (size_t)random.between(2, 5));
	loads.insert(loads.end(), some.begin(), some.begin() + (long)n);
	if (!loops.empty() && (some.empty() || random.one_in(2)))
		loads.push_back(loops[random.below(loops.size())]);
	return loads;
}

void run_phase(Random &random, bool crowds)
{
	const int64_t time = random.between(1000 * ms, 3000 * ms);
	std::vector<std::unique_ptr<Work>> works;
	Phase phase(random.next());
	std::string names;
	Slot slot(PHASE);
	int64_t queue = 0;

	for (Load load : choose(random, crowds)) {
		names += std::string(load == LOAD_PROBES ? "" : " ") + load_names[load].name;
		works.push_back(make(load));
		board->begun[load]++;
	}
	note("phase for %d ms: %s", (int)(time / ms), names.c_str());
	// While the loads are begun, the largest possible queue is assumed, and then the actual
	// one.
	watch_queue(scaled(10000) * piece);
	current = &phase;
	current_slot = &slot;
	current_ends = now() + time;
	for (auto &work : works) {
		work->begin(phase);
		queue += work->queue();
	}
	watch_queue(queue);
	while (!phase.stopping() || phase.alive > 0)
		sn_sleep(2 * ms);
	slot.met();
	for (auto &work : works)
		work->end(phase);
	board->phases++;
}

Slot *end_of_run;

int live(void *arg)
{
	Random &random = *static_cast<Random *>(arg);
	const int phases = (int)random.between(2, 6);

	driver_life_begins();
	for (int i = 0; i < phases && now() < ends; i++)
		run_phase(random, true);
	// After the time is over there are no crowds, because a change that they prevented has
	// still to be made.
	if (now() >= ends && !driver_had_all())
		run_phase(random, false);
	driver_life_ends();
	end_of_run->expect(now());
	return 7;
}

// Called for the next life. In most lives the number follows the CPUs; a fixed number shows
// mistakes that need a single processor, or too many.
void choose_processors(Random &random)
{
	const int by_chance = (int[]){0, 0, 0, 0, 0, 1, 1, 2, 4}[random.below(9)];
	const int n = options.processors >= 0 ? options.processors : by_chance;

	if (n)
		setenv("SENNIT_PROCS", std::to_string(n).c_str(), 1);
	else
		unsetenv("SENNIT_PROCS");
	note("sn_run(), %d processors (0: as many as CPUs)", n);
}

[[noreturn]] void test()
{
	Random random(options.seed);

	quota_enter();
	plain_start();
	watch_start();
	probes_start();
	std::thread(end_phases).detach();
	driver_start(random.next(), options.actions);
	ends = now() + (int64_t)(options.seconds * 1e9);
	int overrun = 5; // lives
	do {
		Slot slot(PHASE);

		choose_processors(random);
		board->lives++;
		end_of_run = &slot;
		const int result = sn_run(live, &random);
		slot.met();
		if (result != 7)
			fail("sn_run() returned %d", result);
	} while (now() < ends || (!driver_had_all() && overrun-- > 0));
	board->done = true;
	_exit(0);
}

// ---- options ----

[[noreturn]] void usage(const char *problem, const char *what)
{
	fprintf(stderr,
		"hostile: %s%s\n"
		"usage: hostile [--seed N] [--seconds N] [--hours N] [--only CHANGE,...]\n"
		"               [--loads LOAD,...] [--procs N] [--list] [--help]\n",
		problem, what);
	exit(2);
}

void list()
{
	printf("changes, for --only (\"none\": none of them):\n");
	for (const ActionName &action : action_names)
		printf("  %-10s %s\n", action.name, action.meaning);
	printf("loads, for --loads:\n");
	for (const LoadName &load : load_names)
		printf("  %-10s %s\n", load.name, load.meaning);
	printf("what is measured, and the bound for an empty queue:\n");
	for (const Bound &bound : bounds)
		printf("  %-10s %s: %lld ms\n", bound.name, bound.meaning,
		       (long long)(bound.ns / ms));
}

template <class Names>
uint32_t chosen(const Names &names, const std::string &text)
{
	uint32_t set = 0;
	size_t at = 0;

	if (text == "none")
		return 0;
	while (at <= text.size()) {
		const size_t comma = std::min(text.find(',', at), text.size());
		const std::string word = text.substr(at, comma - at);
		uint32_t bit = 1, found = 0;

		for (const auto &name : names) {
			if (word == name.name)
				found = bit;
			bit <<= 1;
		}
		if (!found)
			usage("unknown name, see --list: ", word.c_str());
		set |= found;
		at = comma + 1;
	}
	return set;
}

double number(const char *text)
{
	char *end;
	const double value = strtod(text, &end);

	if (*end || end == text || !(value > 0 && value < 1e7))
		usage("not a number above zero: ", text);
	return value;
}

void parse(int argc, char **argv)
{
	options.seed = (uint64_t)now() % 1000000007;
	for (int i = 1; i < argc; i++) {
		const std::string option = argv[i];
		char *end;

		if (option == "--help")
			usage("the top of hostile.cc says what it does", "");
		if (option == "--list") {
			list();
			exit(0);
		}
		if (i + 1 == argc)
			usage("a value is missing after: ", argv[i]);
		const char *value = argv[++i];
		if (option == "--seed") {
			options.seed = strtoull(value, &end, 10);
			if (*end || end == value)
				usage("not a seed: ", value);
		} else if (option == "--seconds") {
			options.seconds = number(value);
		} else if (option == "--hours") {
			options.seconds = 3600 * number(value);
		} else if (option == "--procs") {
			options.processors = (int)strtol(value, &end, 10);
			if (*end || end == value || options.processors < 0)
				usage("not a number of processors: ", value);
		} else if (option == "--only") {
			options.actions = chosen(action_names, value);
		} else if (option == "--loads") {
			options.loads = chosen(load_names, value);
		} else {
			usage("unknown option: ", argv[i - 1]);
		}
	}
}

void leave_out(Action action, const char *why)
{
	if (options.actions & (1u << action))
		snprintf(board->skips[action], sizeof board->skips[action], "%s", why);
	options.actions &= ~(1u << action);
}

// Leaves out changes that cannot be made here, and says why.
void adapt()
{
	bool quota;

	if (HOSTILE_TSAN) {
		leave_out(ACT_FORK, "under the thread sanitizer the child may not start threads");
		leave_out(ACT_FORK_TASK, board->skips[ACT_FORK]);
	}
	if (HOSTILE_TSAN || HOSTILE_ASAN) {
		leave_out(ACT_MLOCK, "the sanitizers ignore mlockall()");
		leave_out(ACT_STDERR, "the sanitizer's report would be lost");
		leave_out(ACT_MEMORY, "it would limit the sanitizer's own memory");
	}
	if (HOSTILE_EMULATED) {
		leave_out(ACT_GDB, "gdb would see the emulator");
		leave_out(ACT_FORK, "the emulator starts no thread in a child");
		leave_out(ACT_FORK_TASK, "the emulator starts no thread in a child");
		leave_out(ACT_MLOCK, "it would lock the emulator's memory");
		leave_out(ACT_MEMORY, "it would limit the emulator's memory");
	}
	if (find_gdb().empty())
		leave_out(ACT_GDB, "there is no gdb");
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		leave_out(ACT_MASK, "there is one CPU");
	if (options.actions & (1u << ACT_QUOTA)) {
		const std::string remark = quota_prepare(&quota);

		if (!quota || sysconf(_SC_NPROCESSORS_ONLN) < 2)
			leave_out(ACT_QUOTA, quota ? "there is one CPU" : remark.c_str());
		else if (!remark.empty())
			printf("quota: %s\n", remark.c_str());
	}
	for (int i = 0; i < ACTIONS; i++)
		if (board->skips[i][0])
			printf("%s is left out: %s\n", action_names[i].name, board->skips[i]);
}

} // namespace
} // namespace hostile

int main(int argc, char **argv)
{
	const struct rlimit no_core = {0, 0};
	bool is_child;

	hostile::parse(argc, argv);
	hostile::board_make(hostile::options.seed);
	printf("seed %" PRIu64 " (repeat with --seed), %.0f s\n", hostile::options.seed,
	       hostile::options.seconds);
	hostile::adapt();
	setrlimit(RLIMIT_CORE, &no_core);
	const int status = hostile::outer_fork(&is_child);
	if (is_child)
		hostile::test();
	hostile::quota_remove();
	return status;
}
