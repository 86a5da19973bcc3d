// SPDX-License-Identifier: MIT
// Labels: machine
//
// Timers: order, stopping, advancing and firing again, random operations compared with a model, and
// stopping while another thread fires.
#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "support/internals.h"
#include "support/runtime.h"

namespace
{

constexpr int64_t never = INT64_MAX;

struct Log {
	std::vector<probe_timer *> fired;
	int64_t again = 0; // if not 0, the time to fire at again
};

int64_t note(void *arg, probe_timer *timer, int64_t)
{
	Log *log = static_cast<Log *>(arg);

	log->fired.push_back(timer);
	return std::exchange(log->again, 0);
}

class Timers : public testing::Test
{
protected:
	~Timers() override
	{
		for (probe_timer *timer : timers)
			probe_timer_free(timer);
		probe_heap_free(heap);
	}
	probe_timer *make()
	{
		timers.push_back(probe_timer_new(note, &log));
		return timers.back();
	}
	probe_timer *start(int64_t when)
	{
		probe_timer *timer = make();

		EXPECT_EQ(0, probe_timer_start(heap, timer, when));
		return timer;
	}

	probe_heap *heap = probe_heap_new();
	std::vector<probe_timer *> timers;
	Log log;
};

using List = std::vector<probe_timer *>;

TEST_F(Timers, FireInOrderAndNotEarly)
{
	probe_timer *c = start(30), *a = start(10), *b = start(20), *d = start(40);

	EXPECT_EQ(10, probe_timers_earliest(heap));
	EXPECT_EQ(0u, probe_timers_run(heap, 9));
	EXPECT_EQ(1u, probe_timers_run(heap, 10)) << "due exactly at its time";
	EXPECT_EQ(20, probe_timers_earliest(heap));
	EXPECT_EQ(2u, probe_timers_run(heap, 39));
	EXPECT_EQ(1u, probe_timers_run(heap, 1000));
	EXPECT_EQ((List{a, b, c, d}), log.fired);
	EXPECT_EQ(never, probe_timers_earliest(heap));
}

TEST_F(Timers, StopReturnsWhetherItWasInTime)
{
	probe_timer *a = start(10), *b = start(20), *unused = make();

	EXPECT_TRUE(probe_timer_stop(a));
	EXPECT_FALSE(probe_timer_stop(a));
	EXPECT_FALSE(probe_timer_stop(unused));
	EXPECT_EQ(20, probe_timers_earliest(heap));
	EXPECT_EQ(1u, probe_timers_run(heap, 100));
	EXPECT_FALSE(probe_timer_stop(b)) << "it has fired";
	EXPECT_EQ(List{b}, log.fired);
}

TEST_F(Timers, CanBeStartedAgain)
{
	probe_timer *a = start(10);

	probe_timer_stop(a);
	EXPECT_EQ(0, probe_timer_start(heap, a, 20));
	probe_timers_run(heap, 20);
	EXPECT_EQ(0, probe_timer_start(heap, a, 30));
	probe_timers_run(heap, 30);
	EXPECT_EQ((List{a, a}), log.fired);
}

TEST_F(Timers, AdvanceMovesOnlyToEarlier)
{
	probe_timer *a = start(100), *b = start(50);

	EXPECT_EQ(0, probe_timer_advance(heap, a, 200));
	EXPECT_EQ(100, probe_timer_when(a));
	EXPECT_EQ(0, probe_timer_advance(heap, a, 10));
	EXPECT_EQ(10, probe_timers_earliest(heap));
	probe_timers_run(heap, 10);
	EXPECT_EQ(0, probe_timer_advance(heap, a, 300)) << "starts an inactive timer";
	probe_timers_run(heap, 50);
	probe_timers_run(heap, 300);
	EXPECT_EQ((List{a, b, a}), log.fired);
}

TEST_F(Timers, MoveToAnyTimeWhileTheyAreActive)
{
	probe_timer *a = start(100), *b = start(50), *unused = make();

	EXPECT_TRUE(probe_timer_move(b, 200));
	EXPECT_EQ(200, probe_timer_when(b));
	EXPECT_EQ(100, probe_timers_earliest(heap));
	EXPECT_TRUE(probe_timer_move(b, 10));
	EXPECT_EQ(10, probe_timers_earliest(heap));
	EXPECT_TRUE(probe_timer_move(b, 150));
	EXPECT_EQ(1u, probe_timers_run(heap, 149));
	EXPECT_FALSE(probe_timer_move(a, 500)) << "it has fired";
	EXPECT_FALSE(probe_timer_move(unused, 500));
	EXPECT_EQ(1u, probe_timers_run(heap, 150));
	EXPECT_EQ(never, probe_timers_earliest(heap));
	EXPECT_EQ((List{a, b}), log.fired);
}

TEST_F(Timers, FireAgainOnRequest)
{
	probe_timer *a = start(10), *b = start(15);

	log.again = 20;
	EXPECT_EQ(1u, probe_timers_run(heap, 10));
	EXPECT_EQ(15, probe_timers_earliest(heap));
	EXPECT_EQ(2u, probe_timers_run(heap, 25));
	EXPECT_EQ((List{a, b, a}), log.fired);
	EXPECT_FALSE(probe_timer_stop(a));
}

// What each does may be much, such as starting a task, so few do it between two looks at the tasks;
// but not one at a time, where something else may run between two of them.
TEST_F(Timers, DoWhatIsDeferredInOrderAndAFewAtATime)
{
	const size_t n = 1000;
	size_t runs = 0;
	List all;

	for (size_t i = 0; i < n; i++) {
		timers.push_back(probe_timer_new_deferred(note, &log));
		all.push_back(timers.back());
		EXPECT_EQ(0, probe_timer_start(heap, timers.back(), int64_t(i) + 1));
	}
	for (; log.fired.size() < n; runs++) {
		const size_t before = log.fired.size();
		const uint32_t fired = probe_timers_run(heap, int64_t(n));

		ASSERT_EQ(before + fired, log.fired.size());
		ASSERT_GE(64u, fired);
		ASSERT_LE(1u, fired);
	}
	EXPECT_GT(n / 8, runs);
	EXPECT_EQ(all, log.fired);
	EXPECT_EQ(never, probe_timers_earliest(heap));
}

// A timer may be advanced or stopped from a thread that has another processor.
TEST_F(Timers, StayInTheHeapWhereTheyWereStarted)
{
	probe_heap *other = probe_heap_new();
	probe_timer *a = start(100), *b = start(90);

	EXPECT_EQ(0, probe_timer_advance(other, a, 50));
	EXPECT_EQ(never, probe_timers_earliest(other));
	EXPECT_EQ(50, probe_timers_earliest(heap));
	EXPECT_TRUE(probe_timer_stop(a));
	EXPECT_EQ(0, probe_timer_start(other, a, 70));
	EXPECT_EQ(70, probe_timers_earliest(other));
	EXPECT_EQ(90, probe_timers_earliest(heap));
	EXPECT_TRUE(probe_timer_stop(a));
	EXPECT_TRUE(probe_timer_stop(b));
	probe_heap_free(other);
}

/*
 * Half a million random operations (scaled), also applied to a std::multimap. Each run must fire
 * exactly what is due in the model, in the order of time.
 */
TEST(TimerModel, AgreesWithAMultimap)
{
	struct Entry {
		probe_timer *timer;
		std::multimap<int64_t, size_t>::iterator at;
		bool active = false;
	};
	struct Fired {
		std::vector<int64_t> times;
		std::vector<probe_timer *> which;
	} fired;
	auto record = [](void *arg, probe_timer *timer, int64_t now) -> int64_t {
		Fired *f = static_cast<Fired *>(arg);

		f->times.push_back(probe_timer_when(timer));
		f->which.push_back(timer);
		EXPECT_LE(probe_timer_when(timer), now);
		return 0;
	};
	const int operations = test::scaled(500000);
	test::Random random;
	probe_heap *heap = probe_heap_new();
	std::multimap<int64_t, size_t> model;
	std::vector<Entry> entries(20000);
	std::map<probe_timer *, size_t> index;
	int64_t now = 1;

	for (size_t i = 0; i < entries.size(); i++) {
		entries[i].timer = probe_timer_new(record, &fired);
		index[entries[i].timer] = i;
	}
	for (int i = 0; i < operations && !testing::Test::HasFailure(); i++) {
		const size_t n = random.below(entries.size());
		Entry &e = entries[n];
		const int64_t when = now + int64_t(random.below(100000));

		if (random.below(1000) == 0) {
			now += int64_t(random.below(5000));
			fired = {};
			const uint32_t count = probe_timers_run(heap, now);
			const auto due = model.upper_bound(now);

			ASSERT_EQ(size_t(std::distance(model.begin(), due)), count)
				<< "seed " << random.seed();
			ASSERT_TRUE(std::is_sorted(fired.times.begin(), fired.times.end()))
				<< "seed " << random.seed();
			for (probe_timer *timer : fired.which) {
				Entry &f = entries[index[timer]];

				ASSERT_TRUE(f.active && f.at->first <= now)
					<< "seed " << random.seed();
				model.erase(f.at);
				f.active = false;
			}
		} else if (!e.active) {
			ASSERT_EQ(0, probe_timer_start(heap, e.timer, when));
			e.at = model.emplace(when, n);
			e.active = true;
		} else if (random.below(2)) {
			ASSERT_TRUE(probe_timer_stop(e.timer)) << "seed " << random.seed();
			model.erase(e.at);
			e.active = false;
		} else {
			ASSERT_EQ(0, probe_timer_advance(heap, e.timer, when));
			if (when < e.at->first) {
				model.erase(e.at);
				e.at = model.emplace(when, n);
			}
		}
		ASSERT_EQ(model.empty() ? never : model.begin()->first, probe_timers_earliest(heap))
			<< "after " << i << " operations, seed " << random.seed();
	}
	for (Entry &e : entries) {
		probe_timer_stop(e.timer);
		probe_timer_free(e.timer);
	}
	EXPECT_EQ(never, probe_timers_earliest(heap));
	probe_heap_free(heap);
}

// Many are in the heap at once, far more than the cache holds. All fire, none twice, in order.
TEST(TimerModel, HoldsAMillion)
{
	struct State {
		int64_t last = 0;
		int count = 0;
		bool ordered = true;
	} state;
	auto record = [](void *arg, probe_timer *timer, int64_t) -> int64_t {
		State *s = static_cast<State *>(arg);

		s->ordered &= probe_timer_when(timer) >= s->last;
		s->last = probe_timer_when(timer);
		s->count++;
		return 0;
	};
	const int n = test::scaled(1000000);
	test::Random random;
	probe_heap *heap = probe_heap_new();
	std::vector<probe_timer *> timers;

	for (int i = 0; i < n; i++) {
		timers.push_back(probe_timer_new(record, &state));
		ASSERT_EQ(0, probe_timer_start(heap, timers.back(),
					       1 + int64_t(random.below(1u << 30))));
	}
	// Every third is stopped.
	int stopped = 0;
	for (int i = 0; i < n; i += 3)
		stopped += probe_timer_stop(timers[size_t(i)]);
	EXPECT_EQ((n + 2) / 3, stopped);
	// So few at a time that others need not wait for long.
	for (uint32_t fired = 1; fired > 0;) {
		fired = probe_timers_run(heap, 1 << 30);
		EXPECT_GE(1024u, fired);
	}
	EXPECT_EQ(n - stopped, state.count);
	EXPECT_TRUE(state.ordered) << "seed " << random.seed();
	for (probe_timer *timer : timers)
		probe_timer_free(timer);
	probe_heap_free(heap);
}

/*
 * One thread starts and stops timers, another serves the same heap. A timer either fires or is
 * stopped. Its memory belongs to the caller again when stop has returned.
 */
TEST(TimerStress, StopAgainstFire)
{
	struct Probe {
		std::atomic<int> fired{0};
	};
	auto record = [](void *arg, probe_timer *, int64_t) -> int64_t {
		static_cast<Probe *>(arg)->fired++;
		return 0;
	};
	const int rounds = test::scaled(200000);
	test::Random random;
	probe_heap *heap = probe_heap_new();
	std::atomic<int64_t> clock{1};
	std::atomic<bool> done{false};
	std::thread server([&] {
		while (!done.load())
			probe_timers_run(heap, clock.load());
	});
	int wrong = 0;

	for (int i = 0; i < rounds; i++) {
		auto *probe = new Probe;
		probe_timer *timer = probe_timer_new(record, probe);

		probe_timer_start(heap, timer, clock.load() + int64_t(random.below(3)));
		if (random.below(2))
			clock++;
		// Advancing a timer that has fired starts it again.
		const bool advanced = random.below(4) == 0;
		if (advanced)
			probe_timer_advance(heap, timer, clock.load());
		const bool stopped = probe_timer_stop(timer);
		const int fired = probe->fired.load(), least = stopped ? 0 : 1;
		wrong += fired < least || fired > least + advanced;
		clock++;
		probe_timer_free(timer);
		delete probe;
	}
	done = true;
	server.join();
	probe_heap_free(heap);
	EXPECT_EQ(0, wrong) << "seed " << random.seed();
}

} // namespace
