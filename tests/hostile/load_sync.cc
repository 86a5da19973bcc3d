// SPDX-License-Identifier: MIT
//
// Loads of channels, locks, timers and joins: everything that is put in must come out once.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "hostile/loads.hpp"

namespace hostile
{
namespace
{

// ---- channels ----

struct Message {
	uint32_t producer, number;
};

constexpr int producers = 6;

// Producers number their messages. Every number is received once, and a single consumer sees the
// numbers of each producer in order, on each of the two channels.
class Channels : public Work
{
public:
	~Channels() override
	{
		sn_chan_unref(chan_);
		sn_chan_unref(second_);
	}

	void begin(Phase &phase) override
	{
		const ssize_t capacity = (ssize_t[]){0, 1, 16, 200}[phase.random.below(4)];

		consumers_ = (int)phase.random.between(1, 5);
		chan_ = make_channel(sizeof(Message), capacity);
		second_ = make_channel(sizeof(Message), 0);
		left_ = producers;
		for (int i = 0; i < producers; i++)
			phase.go_surely(LOAD_CHANNELS,
					[this, &phase, i, seed = phase.random.next()] {
						produce(phase, (uint32_t)i, Random(seed));
					});
		for (int i = 0; i < consumers_; i++)
			phase.go_surely(LOAD_CHANNELS, [this, i] { consume(i % 2 == 1); });
	}

	void end(Phase &) override
	{
		for (int i = 0; i < producers; i++)
			if (sent_[i] != received_[i] || sums_[i] != sent_[i] * (sent_[i] + 1) / 2)
				fail("channels: producer %d sent %llu messages, %llu were "
				     "received, with "
				     "the sum %llu",
				     i, (unsigned long long)sent_[i],
				     (unsigned long long)received_[i].load(),
				     (unsigned long long)sums_[i].load());
	}

	int64_t queue() const override { return (producers + 5) * piece; }

private:
	void produce(Phase &phase, uint32_t id, Random random)
	{
		uint64_t n = 0;

		while (!phase.stopping()) {
			const Message message = {id, (uint32_t)n + 1};
			const bool other = random.one_in(4);
			const uint64_t mark = limits_mark();
			sn_chan *to = other ? second_ : chan_;
			int error;

			if (random.one_in(8)) {
				error = sn_chan_send_until(to, &message,
							   sn_now() + random.between(0, ms));
			} else {
				error = sn_chan_send(to, &message);
			}
			if (error == 0) {
				n++;
				done(LOAD_CHANNELS);
			} else if (error != -ETIMEDOUT) {
				refused(LOAD_CHANNELS, "sending", error, mark);
			}
			if (random.one_in(64))
				sn_sleep(random.between(0, 2 * ms));
		}
		sent_[id] = n;
		if (left_.fetch_sub(1) == 1) {
			sn_chan_close(second_);
			sn_chan_close(chan_);
		}
	}

	void consume(bool with_deadlines)
	{
		uint32_t last[2][producers] = {};
		Message message = {};
		bool open[2] = {true, true};

		while (open[0] || open[1]) {
			struct sn_case cases[2] = {
				{{open[0] ? chan_ : nullptr}, &message, SN_CASE_RECV, 0},
				{{open[1] ? second_ : nullptr}, &message, SN_CASE_RECV, 0},
			};
			const uint64_t mark = limits_mark();
			const int chosen = sn_select(
				cases, 2, with_deadlines ? sn_now() + 300 * us : SN_NO_DEADLINE);

			if (chosen == -ETIMEDOUT)
				continue;
			if (chosen < 0) {
				refused(LOAD_CHANNELS, "sn_select()", chosen, mark);
				sn_sleep(ms);
				continue;
			}
			if (cases[chosen].result < 0) {
				open[chosen] = false;
				continue;
			}
			if (message.producer >= producers)
				fail("channels: a message that no producer sent");
			uint32_t &before = last[chosen][message.producer];
			if (consumers_ == 1 && message.number <= before)
				fail("channels: producer %u: message %u came after message %u",
				     message.producer, message.number, before);
			before = message.number;
			received_[message.producer]++;
			sums_[message.producer] += message.number;
		}
	}

	sn_chan *chan_ = nullptr, *second_ = nullptr;
	int consumers_ = 0;
	std::atomic<int> left_{0};
	uint64_t sent_[producers] = {};
	std::atomic<uint64_t> received_[producers] = {}, sums_[producers] = {};
};

// ---- a mutex ----

class Mutex : public Work
{
public:
	void begin(Phase &phase) override
	{
		for (int i = 0; i < tasks; i++)
			phase.go_surely(LOAD_MUTEX, [this, &phase, seed = phase.random.next()] {
				lock(phase, Random(seed));
			});
	}
	void end(Phase &) override
	{
		if (counter_ != sum_)
			fail("mutex: after %llu increments it is %llu",
			     (unsigned long long)sum_.load(), (unsigned long long)counter_);
	}
	int64_t queue() const override { return tasks * piece + tasks * 100 * us; }

private:
	static constexpr int tasks = 8;

	void lock(Phase &phase, Random random)
	{
		uint64_t n = 0;

		while (!phase.stopping()) {
			const uint64_t mark = limits_mark();
			const int error =
				random.one_in(8) ? sn_mutex_lock_until(&mutex_, sn_now() + 100 * us)
						 : sn_mutex_lock(&mutex_);

			if (error < 0) {
				if (error != -ETIMEDOUT)
					refused(LOAD_MUTEX, "locking", error, mark);
				continue;
			}
			counter_++;
			n++;
			if (random.one_in(100))
				sn_sleep(50 * us);
			else if (random.one_in(100))
				compute(100 * us);
			sn_mutex_unlock(&mutex_);
			if (n % 64 == 0) {
				done(LOAD_MUTEX, 64);
				sn_sleep(random.between(0, 500 * us));
			}
		}
		sum_ += n;
	}

	sn_mutex mutex_ = SN_MUTEX_INIT;
	uint64_t counter_ = 0;
	std::atomic<uint64_t> sum_{0};
};

// ---- timers ----

class Nappers : public Work
{
public:
	void begin(Phase &phase) override
	{
		for (int i = 0; i < tasks; i++)
			phase.go_surely(LOAD_NAPPERS, [&phase] {
				Slot slot(TIMER);

				while (!phase.stopping()) {
					compute(5 * us);
					sleep_for(slot, ms);
					done(LOAD_NAPPERS);
				}
			});
	}
	int64_t queue() const override { return tasks * (5 * us + 2 * piece); }

	static void sleep_for(Slot &slot, int64_t ns)
	{
		const uint64_t mark = limits_mark();

		slot.expect(now() + ns);
		const int error = sn_sleep(ns);
		if (error == 0) {
			if (slot.met() < 0)
				fail("a sleep ended too early");
			return;
		}
		slot.drop();
		refused(LOAD_NAPPERS, "sn_sleep()", error, mark);
		sn_yield();
	}

private:
	static constexpr int tasks = scaled(1000);
};

class Sleepers : public Work
{
public:
	void begin(Phase &phase) override
	{
		for (int i = 0; i < tasks; i++)
			phase.go_surely(LOAD_SLEEPERS, [&phase, seed = phase.random.next()] {
				Slot slot(TIMER);
				Random random(seed);

				while (!phase.stopping()) {
					Nappers::sleep_for(slot,
							   random.between(10 * ms, 2 * second));
					done(LOAD_SLEEPERS);
				}
			});
	}
	int64_t queue() const override { return tasks * piece; }

private:
	static constexpr int tasks = 100;
};

// Every alarm fires once or is stopped.
class Alarms : public Work
{
public:
	void begin(Phase &phase) override
	{
		for (int i = 0; i < tasks; i++)
			phase.go_surely(LOAD_ALARMS, [this, &phase, seed = phase.random.next()] {
				set(phase, Random(seed));
			});
	}
	void end(Phase &) override
	{
		if (started_ != fired_ + prevented_)
			fail("alarms: %llu were set, %llu fired, %llu were stopped",
			     (unsigned long long)started_.load(), (unsigned long long)fired_.load(),
			     (unsigned long long)prevented_.load());
	}
	int64_t queue() const override { return tasks * 2 * piece; }

private:
	static constexpr int tasks = 20;

	struct One {
		Alarms *all;
		sn_alarm alarm = SN_ALARM_INIT;
		Slot slot{ALARM};
		std::atomic<bool> fired{false};
	};

	static int fire(void *arg)
	{
		One *one = static_cast<One *>(arg);

		one->slot.met();
		one->all->fired_++;
		one->fired = true; // from now on the alarm may be freed
		return 0;
	}

	void set(Phase &phase, Random random)
	{
		One one{this};

		while (!phase.stopping()) {
			const int64_t after = random.between(0, 20 * ms);
			const uint64_t mark = limits_mark();

			one.fired = false;
			one.slot.expect(now() + after);
			const int error =
				sn_alarm_start(&one.alarm, sn_after(after), 0, fire, &one);
			if (error < 0) {
				one.slot.drop();
				refused(LOAD_ALARMS, "sn_alarm_start()", error, mark);
				sn_sleep(ms);
				continue;
			}
			started_++;
			sn_sleep(random.between(0, 20 * ms));
			if (sn_alarm_stop(&one.alarm) == 1) {
				one.slot.drop();
				prevented_++;
			} else {
				while (!one.fired)
					sn_sleep(200 * us);
			}
			done(LOAD_ALARMS);
		}
	}

	std::atomic<uint64_t> started_{0}, fired_{0}, prevented_{0};
};

// ---- joins ----

class Joins : public Work
{
public:
	void begin(Phase &phase) override
	{
		for (int i = 0; i < parents; i++)
			phase.go_surely(LOAD_JOINS, [&phase] {
				while (!phase.stopping()) {
					family();
					sn_sleep(ms);
				}
			});
	}
	int64_t queue() const override { return parents * children * 4 * piece; }

private:
	static constexpr int parents = 3, children = 50;

	static int child(void *arg)
	{
		const int i = (int)(intptr_t)arg;

		if (i % 3 == 0)
			sn_yield();
		else if (i % 3 == 1)
			sn_sleep(10 * us);
		return i;
	}

	static void family()
	{
		sn_task *tasks[children];
		int n = 0;

		for (int i = 0; i < children; i++) {
			const uint64_t mark = limits_mark();
			const int error = sn_spawn(&tasks[n], child, (void *)(intptr_t)n, nullptr);

			if (error < 0)
				refused(LOAD_JOINS, "sn_spawn()", error, mark);
			else
				n++;
		}
		for (int i = 0; i < n; i++) {
			int result = -1;
			const int error = sn_join(tasks[i], &result);

			if (error < 0 || result != i)
				fail("joins: joining task %d returned %d, with the result %d", i,
				     error, result);
		}
		done(LOAD_JOINS, (uint64_t)n);
	}
};

} // namespace

std::unique_ptr<Work> make_channels()
{
	return std::make_unique<Channels>();
}
std::unique_ptr<Work> make_mutex()
{
	return std::make_unique<Mutex>();
}
std::unique_ptr<Work> make_nappers()
{
	return std::make_unique<Nappers>();
}
std::unique_ptr<Work> make_sleepers()
{
	return std::make_unique<Sleepers>();
}
std::unique_ptr<Work> make_alarms()
{
	return std::make_unique<Alarms>();
}
std::unique_ptr<Work> make_joins()
{
	return std::make_unique<Joins>();
}

} // namespace hostile
