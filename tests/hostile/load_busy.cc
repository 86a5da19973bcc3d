// SPDX-License-Identifier: MIT
//
// Loads that keep processors or threads busy: tasks that compute, block, yield in crowds, or loop
// over calls that do not park.
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>

#include <fcntl.h>
#include <unistd.h>

#include "hostile/loads.hpp"

namespace hostile
{
namespace
{

// ---- computing ----

class Hogs : public Work
{
public:
	void begin(Phase &phase) override
	{
		for (int i = 0; i < tasks; i++)
			phase.go_surely(LOAD_HOGS, [&phase, seed = phase.random.next()] {
				Random random(seed);

				while (!phase.stopping()) {
					compute(random.between(ms, 40 * ms));
					done(LOAD_HOGS);
					if (random.one_in(2))
						sn_yield();
					else
						sn_sleep(random.between(0, 5 * ms));
				}
			});
	}
	int64_t queue() const override { return tasks * slice; }

private:
	static constexpr int tasks = 3;
};

// ---- blocking ----

// usleep() and read(), with and without brackets. A task that waits for a byte gets it from another
// task.
class Blocking : public Work
{
public:
	~Blocking() override
	{
		for (int fd : pipe_)
			if (fd >= 0)
				close(fd);
	}

	void begin(Phase &phase) override
	{
		while (pipe2(pipe_, O_CLOEXEC) < 0)
			sn_sleep(5 * ms);
		for (int i = 0; i < sleepers; i++)
			phase.go_surely(LOAD_BLOCKING, [&phase, seed = phase.random.next()] {
				sleep(phase, Random(seed));
			});
		phase.go_surely(LOAD_BLOCKING, [this] { read_all(); });
		phase.go_surely(LOAD_BLOCKING, [this, &phase] { write_all(phase); });
	}

	void end(Phase &) override
	{
		if (written_ != read_)
			fail("blocking: %llu bytes were written, %llu read",
			     (unsigned long long)written_, (unsigned long long)read_);
	}

	int64_t queue() const override { return (sleepers + 2) * 100 * us; }

private:
	static constexpr int sleepers = 5;

	static void sleep(Phase &phase, Random random)
	{
		while (!phase.stopping()) {
			const useconds_t time = (useconds_t)random.between(50, 4000);

			if (random.one_in(2)) {
				sn_enter_blocking_as("usleep");
				usleep(time);
				sn_exit_blocking();
			} else {
				usleep(time);
				if (random.one_in(2))
					sn_yield();
			}
			done(LOAD_BLOCKING);
			if (random.one_in(4))
				sn_sleep(random.between(0, 3 * ms));
		}
	}

	void read_all()
	{
		char byte;
		bool bracket = false;
		ssize_t n;

		do {
			bracket = !bracket;
			if (bracket)
				sn_enter_blocking_as("read");
			n = read(pipe_[0], &byte, 1);
			if (bracket)
				sn_exit_blocking();
			if (n > 0)
				read_++;
		} while (n > 0 || (n < 0 && errno == EINTR));
	}

	void write_all(Phase &phase)
	{
		while (!phase.stopping()) {
			if (write(pipe_[1], "x", 1) == 1)
				written_++;
			sn_sleep(2 * ms);
		}
		close(pipe_[1]);
		pipe_[1] = -1;
	}

	int pipe_[2] = {-1, -1};
	uint64_t written_ = 0, read_ = 0;
};

// ---- pinned tasks ----

// Threads that cannot start others, and that end with their tasks.
class Pinned : public Work
{
public:
	void begin(Phase &phase) override
	{
		for (int i = 0; i < makers; i++)
			phase.go_surely(LOAD_PINNED, [this, &phase, seed = phase.random.next()] {
				make(phase, Random(seed));
			});
	}
	int64_t queue() const override { return makers * (most + 1) * 100 * us; }

private:
	static constexpr int makers = 2, most = 4;

	void make(Phase &phase, Random random)
	{
		while (!phase.stopping()) {
			if (alive_ < makers * most) {
				alive_++;
				if (!phase.go(LOAD_PINNED, [this, seed = random.next()] {
					    live(Random(seed));
					    alive_--;
				    }))
					alive_--;
			}
			sn_sleep(random.between(0, 3 * ms));
		}
	}

	static void live(Random random)
	{
		const bool pinned = sn_pin() == 0; // fails at the limit of threads

		sn_yield();
		if (random.one_in(2))
			usleep((useconds_t)random.between(50, 2000));
		if (random.one_in(2))
			sn_sleep(random.between(0, 2 * ms));
		if (pinned && random.one_in(2) && sn_unpin() < 0)
			fail("pinned: a task was not pinned any more");
		done(LOAD_PINNED);
	}

	std::atomic<int> alive_{0};
};

// ---- a crowd ----

class Crowd : public Work
{
public:
	void begin(Phase &phase) override
	{
		// As many as fit into one processor's queue, more than that, and enough to fill
		// many.
		const int tasks = scaled((int[]){40, 400, 10000}[phase.random.below(3)]);

		for (int i = 0; i < tasks && !phase.stopping(); i++) {
			if (!phase.go(LOAD_CROWD, [&phase] { yield(phase); }))
				sn_sleep(ms);
		}
		tasks_ = tasks;
	}
	int64_t queue() const override { return tasks_ * piece; }

private:
	int tasks_ = 0;

	static void yield(Phase &phase)
	{
		uint64_t n = 0;

		while (!phase.stopping()) {
			sn_yield();
			n++;
		}
		done(LOAD_CROWD, n);
	}
};

// ---- loops ----

// Tasks that loop over a call that does not park, one more than there are processors.
class Loop : public Work
{
public:
	explicit Loop(Load load) : load_(load) {}
	~Loop() override
	{
		sn_chan_unref(chan_);
		if (file_ >= 0)
			close(file_);
	}

	void begin(Phase &phase) override
	{
		struct sn_run_stats stats;

		chan_ = make_channel(sizeof(int), 1);
		file_ = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
		sn_run_stats(&stats);
		tasks_ = (int)stats.processors + 1;
		for (int i = 0; i < tasks_; i++)
			phase.go_surely(load_, [this, &phase] { loop(phase); });
	}
	int64_t queue() const override
	{
		return tasks_ * slice + (load_ == LOAD_GO ? most_spawned * piece : 0);
	}

private:
	static constexpr int most_spawned = scaled(5000);

	void loop(Phase &phase)
	{
		uint64_t n = 0;
		sn_scope *scope = nullptr;

		if (load_ == LOAD_CANCELED) {
			while (sn_scope_open(&scope, SN_NO_DEADLINE) < 0)
				sn_sleep(ms);
			sn_scope_cancel(scope);
		}
		for (; !phase.stopping(); n++)
			once(phase);
		if (scope)
			(void)sn_scope_close(scope);
		done(load_, n);
	}

	void once(Phase &phase)
	{
		switch (load_) {
		case LOAD_SELECT: {
			int got;
			struct sn_case one = {{chan_}, &got, SN_CASE_RECV, 0};

			if (sn_select(&one, 1, SN_TRY) != -EAGAIN)
				fail("select: received a value that was not sent");
			break;
		}
		case LOAD_GO:
			// Bounded: when there are too many tasks, the loop makes empty brackets
			// instead.
			if (spawned_ < most_spawned) {
				spawned_++;
				if (!phase.go(LOAD_GO, [this] { spawned_--; }))
					spawned_--;
				break;
			}
			[[fallthrough]];
		case LOAD_BRACKET:
			sn_enter_blocking();
			sn_exit_blocking();
			break;
		case LOAD_PIN:
			if (sn_pin() == 0)
				sn_unpin();
			break;
		case LOAD_CANCELED:
			if (sn_sleep(ms) != -ECANCELED)
				fail("canceled: a sleep was not cancelled");
			break;
		default:
			sn_blocking(
				[](void *arg) {
					char bytes[4096];

					return (int)pread(*static_cast<int *>(arg), bytes,
							  sizeof bytes, 0);
				},
				&file_);
		}
	}

	const Load load_;
	sn_chan *chan_ = nullptr;
	int file_ = -1, tasks_ = 1;
	std::atomic<int> spawned_{0};
};

} // namespace

std::unique_ptr<Work> make_hogs()
{
	return std::make_unique<Hogs>();
}
std::unique_ptr<Work> make_blocking()
{
	return std::make_unique<Blocking>();
}
std::unique_ptr<Work> make_pinned()
{
	return std::make_unique<Pinned>();
}
std::unique_ptr<Work> make_crowd()
{
	return std::make_unique<Crowd>();
}
std::unique_ptr<Work> make_loop(Load load)
{
	return std::make_unique<Loop>(load);
}

} // namespace hostile
