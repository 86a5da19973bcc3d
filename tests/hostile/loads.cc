// SPDX-License-Identifier: MIT
#include "hostile/loads.hpp"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <system_error>
#include <thread>

namespace hostile
{

// How many limits are lowered at the moment (lower half), and how often a limit was lowered (upper
// half).
static std::atomic<uint64_t> limits;

void limits_begin()
{
	limits.fetch_add((uint64_t{1} << 32) + 1);
}

void limits_end()
{
	limits.fetch_sub(1);
}

uint64_t limits_mark()
{
	return limits.load();
}

bool limits_excuse(uint64_t mark)
{
	return (mark & 0xffffffff) != 0 || limits.load() != mark;
}

void refused(Load load, const char *what, int error, uint64_t mark)
{
	board->refused[load].fetch_add(1, std::memory_order_relaxed);
	if (!limits_excuse(mark))
		fail("%s: %s failed, though no limit is lowered: %s", load_names[load].name, what,
		     strerror(-error));
}

namespace
{

struct Closure {
	Phase *phase;
	Load load;
	std::function<void()> body;
};

int closure_main(void *arg)
{
	std::unique_ptr<Closure> closure(static_cast<Closure *>(arg));
	Phase &phase = *closure->phase;
	const Load load = closure->load;

	closure->body();
	closure.reset();
	board->alive[load].fetch_sub(1);
	phase.alive.fetch_sub(1); // access nothing after this, because the phase may be over
	return 0;
}

} // namespace

bool Phase::go(Load load, std::function<void()> body)
{
	auto closure = std::make_unique<Closure>(Closure{this, load, std::move(body)});
	const uint64_t mark = limits_mark();

	alive.fetch_add(1);
	board->alive[load].fetch_add(1);
	const int error = sn_go(closure_main, closure.get());
	if (error == 0) {
		(void)closure.release();
		return true;
	}
	board->alive[load].fetch_sub(1);
	alive.fetch_sub(1);
	refused(load, "sn_go()", error, mark);
	return false;
}

void Phase::go_surely(Load load, const std::function<void()> &body)
{
	while (!go(load, body))
		sn_sleep(5 * ms);
}

void Phase::until_stop()
{
	while (!stopping())
		sn_sleep(10 * ms);
}

void start_outside(std::atomic<bool> &started, void (*body)())
{
	if (started.exchange(true))
		return;
	for (;;) {
		try {
			std::thread(body).detach();
			return;
		} catch (const std::system_error &) {
			sn_sleep(5 * ms);
		}
	}
}

sn_chan *make_channel(size_t elem_size, ssize_t capacity)
{
	sn_chan *chan;

	while (sn_chan_new(&chan, elem_size, capacity) < 0)
		sn_sleep(5 * ms);
	return chan;
}

void compute(int64_t ns)
{
	struct timespec time;
	int64_t begun = -1, passed = 0;
	volatile uint64_t work = 0;

	do {
		for (int i = 0; i < 500; i++)
			work = work + (uint64_t)i;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
		passed = (int64_t)time.tv_sec * second + time.tv_nsec;
		if (begun < 0)
			begun = passed;
	} while (passed - begun < ns);
}

std::unique_ptr<Work> make(Load load)
{
	switch (load) {
	case LOAD_PROBES:
		return make_probes();
	case LOAD_CHANNELS:
		return make_channels();
	case LOAD_MUTEX:
		return make_mutex();
	case LOAD_NAPPERS:
		return make_nappers();
	case LOAD_SLEEPERS:
		return make_sleepers();
	case LOAD_ALARMS:
		return make_alarms();
	case LOAD_JOINS:
		return make_joins();
	case LOAD_ECHO:
		return make_echo();
	case LOAD_RELAY:
		return make_relay();
	case LOAD_BLOCKING:
		return make_blocking();
	case LOAD_HOGS:
		return make_hogs();
	case LOAD_CROWD:
		return make_crowd();
	case LOAD_PINNED:
		return make_pinned();
	case LOAD_SCAN:
		return make_scan();
	case LOAD_VISITORS:
		return make_visitors();
	default:
		return make_loop(load);
	}
}

} // namespace hostile
