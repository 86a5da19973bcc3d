// SPDX-License-Identifier: MIT
#include "hostile/board.hpp"

#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <new>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace hostile
{

Board *board;

void board_make(uint64_t seed)
{
	void *memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED) {
		perror("hostile: mmap");
		exit(2);
	}
	board = new (memory) Board{};
	board->seed = seed;
}

int64_t now()
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (int64_t)time.tv_sec * second + time.tv_nsec;
}

void note(const char *format, ...)
{
	// Both the driver and the task that begins the phases write notes.
	static std::mutex lock;
	std::lock_guard hold(lock);
	const uint32_t n = board->notes.load();
	Board::Note &note = board->note[n % 32];
	va_list args;

	note.at = now();
	va_start(args, format);
	vsnprintf(note.text, sizeof note.text, format, args);
	va_end(args);
	board->notes.store(n + 1);
}

// Two threads use stderr_full() and stderr_again(): the driver, and a thread that fails.
static std::mutex stderr_lock;
static int stderr_before = -1, stderr_reader = -1;

bool stderr_full()
{
	std::lock_guard hold(stderr_lock);
	const char page[4096] = {};
	int ends[2];

	if (stderr_before >= 0 || pipe2(ends, O_CLOEXEC) < 0)
		return false;
	stderr_before = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (stderr_before < 0) {
		close(ends[0]);
		close(ends[1]);
		return false;
	}
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	while (write(ends[1], page, sizeof page) > 0)
		continue;
	fcntl(ends[1], F_SETFL, 0);
	stderr_reader = ends[0];
	dup2(ends[1], STDERR_FILENO);
	close(ends[1]);
	return true;
}

// A dump that waits for room in the pipe ends with an error.
void stderr_again()
{
	std::lock_guard hold(stderr_lock);

	if (stderr_before < 0)
		return;
	dup2(stderr_before, STDERR_FILENO);
	close(stderr_before);
	close(stderr_reader);
	stderr_before = -1;
}

void fail(const char *format, ...)
{
	static std::atomic<bool> taken;
	va_list args;

	if (!taken.exchange(true)) {
		va_start(args, format);
		vsnprintf(board->failure, sizeof board->failure, format, args);
		va_end(args);
		stderr_again(); // so that the dump that follows can be read
		board->failed.store(true);
	}
	for (;;)
		pause();
}

static double in_ms(int64_t ns)
{
	return (double)ns / 1e6;
}

void report()
{
	printf("%-10s %9s  %s\n", "change", "times", "");
	for (int i = 0; i < ACTIONS; i++)
		printf("%-10s %9" PRIu64 "  %s%s%s\n", action_names[i].name, board->made[i].load(),
		       action_names[i].meaning, board->skips[i][0] ? "; left out: " : "",
		       board->skips[i]);
	printf("\n%-10s %9s %9s   %s\n", "load", "begun", "done", "");
	for (int i = 0; i < LOADS; i++)
		printf("%-10s %9" PRIu64 " %9" PRIu64 "   %s\n", load_names[i].name,
		       board->begun[i].load(), board->operations[i].load(), load_names[i].meaning);
	printf("\n%-10s %9s %12s %12s  %s\n", "wait", "measured", "worst", "counted",
	       "the plain thread's worst");
	for (int i = 0; i < KINDS; i++) {
		const Plain beside = bounds[i].beside;

		printf("%-10s %9" PRIu64 " %9.2f ms %9.2f ms  %s %.2f ms\n", bounds[i].name,
		       board->measured[i].load(), in_ms(board->worst[i]),
		       in_ms(board->worst_counted[i]), plain_names[beside],
		       in_ms(board->plain_worst[beside]));
	}
	printf("(counted: without the time in which the system kept threads from running, %.1f s "
	       "in "
	       "all; only waits above 30 ms are counted)\n",
	       (double)board->os_kept.load() / 1e9);
	printf("hostile seed=%" PRIu64 " lives=%" PRIu64 " phases=%" PRIu64, board->seed,
	       board->lives.load(), board->phases.load());
	for (int i = 0; i < ACTIONS; i++)
		printf(" %s=%" PRIu64, action_names[i].name, board->made[i].load());
	for (int i = 0; i < KINDS; i++)
		printf(" %s_ms=%.2f", bounds[i].name, in_ms(board->worst[i]));
	for (int i = 0; i < PLAINS; i++)
		printf(" plain_%s_ms=%.2f", plain_names[i], in_ms(board->plain_worst[i]));
	printf("\n");
	fflush(stdout);
}

void report_failure()
{
	const uint32_t notes = board->notes.load();
	const int64_t at = now();

	printf("\nFAILED, seed %" PRIu64 ": %s\n\nthe driver, last:\n", board->seed,
	       board->failure);
	for (uint32_t i = notes > 24 ? notes - 24 : 0; i != notes; i++)
		printf("  %8.3f s ago: %s\n", (double)(at - board->note[i % 32].at) / 1e9,
		       board->note[i % 32].text);
	printf("\n%-10s %9s %12s %9s %9s\n", "load", "alive", "operations", "refused", "begun");
	for (int i = 0; i < LOADS; i++)
		if (board->begun[i])
			printf("%-10s %9" PRIu64 " %12" PRIu64 " %9" PRIu64 " %9" PRIu64 "\n",
			       load_names[i].name, board->alive[i].load(),
			       board->operations[i].load(), board->refused[i].load(),
			       board->begun[i].load());
	printf("\n");
	fflush(stdout);
}

} // namespace hostile
