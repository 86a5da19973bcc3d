// SPDX-License-Identifier: MIT
//
// Random programs over everything that tasks wait for: channels, select, locks, semaphores,
// conditions, scopes, cancellation and early exits, checked against simple models.
//
// A program is made from its seed alone. SENNIT_TEST_SEED=<seed> repeats the run from that program
// on, as far as the machine's timing allows. SENNIT_TEST_PROGRAMS=<n> runs n programs, for long
// stress tests.
//
// With one task, and calls that do not wait, each result is the one that the model predicts. With
// many tasks, each task records when its calls began and ended, by a common counter. Afterwards the
// history of each channel must be one that a queue can have: each element that was sent was
// received once or is left, in order, with never more in the channel than fit. Nothing is sent
// after closing, and no end is reported while elements are still to come. The locks guard plain
// variables, which ThreadSanitizer and the counts at the end check. Without deadlines and
// cancellation, producers and consumers end by themselves.
#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "support/channel.h"
#include "support/runtime.h"

namespace
{

using namespace test;

int programs(int otherwise)
{
	const char *wish = getenv("SENNIT_TEST_PROGRAMS");

	return wish ? atoi(wish) : otherwise;
}

// ---- one task, and what its calls must return ----

class Solo
{
public:
	explicit Solo(uint64_t seed) : random_(seed)
	{
		for (auto &each : chans_) {
			const ssize_t capacity = (ssize_t)random_.below(4);

			each.chan = std::make_unique<test::Chan<int>>(capacity);
			each.capacity = (size_t)capacity;
		}
	}

	void run()
	{
		for (int i = 0; i < 400 && !testing::Test::HasFailure(); i++)
			step();
		while (masks_ > 0)
			unmask();
		while (!scopes_.empty())
			close_scope();
		while (holds_)
			unlock();
		while (reads_ > 0)
			read_unlock();
		if (writes_)
			write_unlock();
	}

private:
	struct Modelled {
		std::unique_ptr<test::Chan<int>> chan;
		size_t capacity = 0;
		std::deque<int> elements;
		bool closed = false;
	};
	struct Opened {
		sn_scope *scope;
		int reason;
	};

	int reason() const { return masks_ > 0 || scopes_.empty() ? 0 : scopes_.back().reason; }

	// Chooses one of the two forms that do not wait; *would_wait is the result of that form if
	// it would have to wait.
	int64_t form(int *would_wait)
	{
		const bool tries = random_.below(2) == 0;

		*would_wait = tries ? -EAGAIN : -ETIMEDOUT;
		return tries ? SN_TRY : 1;
	}

	int model_send(Modelled &to, int would_wait)
	{
		if (reason())
			return reason();
		if (to.closed)
			return -EPIPE;
		return to.elements.size() < to.capacity ? 0 : would_wait;
	}

	int model_recv(Modelled &from, int would_wait)
	{
		if (reason())
			return reason();
		if (!from.elements.empty())
			return 0;
		return from.closed ? -EPIPE : would_wait;
	}

	void send()
	{
		Modelled &to = chans_[random_.below(chans_.size())];
		int would_wait;
		const int64_t deadline = form(&would_wait);
		const int expected = model_send(to, would_wait), value = ++last_value_;

		ASSERT_EQ(expected, to.chan->send(value, deadline));
		if (expected == 0)
			to.elements.push_back(value);
	}

	void recv()
	{
		Modelled &from = chans_[random_.below(chans_.size())];
		int would_wait, value = -1;
		const int64_t deadline = form(&would_wait);
		const int expected = model_recv(from, would_wait);

		ASSERT_EQ(expected, from.chan->recv(&value, deadline));
		ASSERT_EQ(expected == 0 ? from.elements.front() : -1, value);
		if (expected == 0)
			from.elements.pop_front();
	}

	void select()
	{
		const size_t n = 1 + random_.below(4);
		std::vector<sn_case> cases;
		std::vector<int> values(n, 0), which(n);
		int would_wait;
		const int64_t deadline = form(&would_wait);
		bool any = false;

		for (size_t i = 0; i < n; i++) {
			Modelled &chan = chans_[which[i] = (int)random_.below(chans_.size())];
			const bool sends = random_.below(2) == 0;

			values[i] = sends ? ++last_value_ : -1;
			cases.push_back(sends ? chan.chan->send_case(&values[i])
					      : chan.chan->recv_case(&values[i]));
			any |= (sends ? model_send(chan, 1) : model_recv(chan, 1)) != 1;
		}
		const int chosen = sn_select(cases.data(), n, deadline);

		if (reason() || !any) {
			ASSERT_EQ(reason() ? reason() : would_wait, chosen);
			return;
		}
		ASSERT_LE(0, chosen);
		ASSERT_GT((int)n, chosen);
		Modelled &chan = chans_[(size_t)which[(size_t)chosen]];
		const bool sent = cases[(size_t)chosen].op == SN_CASE_SEND;
		const int expected = sent ? model_send(chan, 1) : model_recv(chan, 1);

		ASSERT_NE(1, expected) << "not ready";
		ASSERT_EQ(expected, cases[(size_t)chosen].result);
		if (expected == 0 && sent) {
			chan.elements.push_back(values[(size_t)chosen]);
		} else if (expected == 0) {
			ASSERT_EQ(chan.elements.front(), values[(size_t)chosen]);
			chan.elements.pop_front();
		}
	}

	void close()
	{
		Modelled &chan = chans_[random_.below(chans_.size())];

		ASSERT_EQ(chan.closed ? -EPIPE : 0, chan.chan->close());
		chan.closed = true;
	}

	// A task never locks a mutex that it holds, because debug builds end such a program.
	void lock()
	{
		if (holds_)
			return;
		if (random_.below(2) == 0)
			ASSERT_EQ(0, sn_mutex_try_lock(&mutex_));
		else
			ASSERT_EQ(0, sn_mutex_lock_until(&mutex_, 1));
		holds_ = true;
	}

	void unlock()
	{
		ASSERT_EQ(0, sn_mutex_unlock(&mutex_));
		holds_ = false;
	}

	void wait_for_condition()
	{
		const int expected = reason() ? reason() : -ETIMEDOUT;

		if (holds_) {
			ASSERT_EQ(expected, sn_cond_wait_until(&cond_, &mutex_, 1));
		}
		ASSERT_EQ(0, sn_cond_signal(&cond_));
	}

	void read_lock()
	{
		if (writes_)
			return;
		ASSERT_EQ(0, sn_rwlock_try_read(&rwlock_));
		reads_++;
	}

	void read_unlock()
	{
		ASSERT_EQ(0, sn_rwlock_read_unlock(&rwlock_));
		reads_--;
	}

	void write_lock()
	{
		if (writes_)
			return;
		const int expected = reads_ > 0 ? -EBUSY : 0;

		ASSERT_EQ(expected, sn_rwlock_try_write(&rwlock_));
		writes_ = expected == 0;
	}

	void write_unlock()
	{
		ASSERT_EQ(0, sn_rwlock_write_unlock(&rwlock_));
		writes_ = false;
	}

	void acquire()
	{
		const bool tries = random_.below(2) == 0;
		const int expected = permits_ > 0 ? 0
				     : tries      ? -EAGAIN
				     : reason()   ? reason()
						  : -ETIMEDOUT;

		ASSERT_EQ(expected, tries ? sn_semaphore_try_acquire(&semaphore_)
					  : sn_semaphore_acquire_until(&semaphore_, 1));
		permits_ -= expected == 0;
	}

	void release()
	{
		const int n = 1 + (int)random_.below(3);

		ASSERT_EQ(0, sn_semaphore_release(&semaphore_, n));
		permits_ += n;
	}

	void open_scope()
	{
		sn_scope *scope = nullptr;

		if (scopes_.size() >= 5 || masks_ > 0)
			return;
		const int expected = reason();

		ASSERT_EQ(expected, sn_scope_open(&scope, SN_NO_DEADLINE));
		if (expected == 0)
			scopes_.push_back({scope, 0});
	}

	void cancel_scope()
	{
		if (scopes_.empty())
			return;
		const size_t from = random_.below(scopes_.size());

		ASSERT_EQ(0, sn_scope_cancel(scopes_[from].scope));
		for (size_t i = from; i < scopes_.size(); i++)
			if (scopes_[i].reason == 0)
				scopes_[i].reason = -ECANCELED;
	}

	void close_scope()
	{
		if (scopes_.empty() || masks_ > 0)
			return;
		const Opened last = scopes_.back();

		scopes_.pop_back();
		ASSERT_EQ(last.reason, sn_scope_close(last.scope));
	}

	// A child that ends immediately. Its result, if it is an error, cancels its scope and the
	// scopes inside that.
	void failing_child()
	{
		if (scopes_.empty() || reason() || masks_ > 0)
			return;
		static int fails_with;

		fails_with = -(int)(1000 + random_.below(50));
		ASSERT_EQ(0, sn_scope_go(
				     scopes_.back().scope, [](void *) { return fails_with; },
				     nullptr));
		ASSERT_TRUE(test::eventually([] { return sn_cancelled() != 0; }));
		ASSERT_EQ(-ECANCELED, sn_cancelled());
		scopes_.back().reason = -ECANCELED;
		const Opened last = scopes_.back();

		scopes_.pop_back();
		ASSERT_EQ(fails_with, sn_scope_close(last.scope));
	}

	void mask()
	{
		if (masks_ >= 3)
			return;
		ASSERT_EQ(0, sn_cancel_mask());
		masks_++;
	}

	void unmask()
	{
		ASSERT_EQ(masks_ > 0 ? 0 : -EINVAL, sn_cancel_unmask());
		masks_ -= masks_ > 0;
	}

	void ask()
	{
		ASSERT_EQ(reason(), sn_cancelled());
		ASSERT_EQ(reason(), sn_sleep_until(1));
		for (auto &each : chans_)
			ASSERT_EQ(each.elements.size(), each.chan->size());
	}

	void step()
	{
		switch (random_.below(40)) {
		case 0:
			return random_.below(4) == 0 ? close() : ask();
		case 1:
			return lock();
		case 2:
			return holds_ ? unlock() : lock();
		case 3:
			return wait_for_condition();
		case 4:
			return read_lock();
		case 5:
			return reads_ > 0 ? read_unlock() : read_lock();
		case 6:
			return write_lock();
		case 7:
			return writes_ ? write_unlock() : write_lock();
		case 8:
		case 9:
		case 10:
			return acquire();
		case 11:
			return release();
		case 12:
		case 13:
			return open_scope();
		case 14:
			return cancel_scope();
		case 15:
		case 16:
			return close_scope();
		case 17:
			return failing_child();
		case 18:
			return mask();
		case 19:
		case 20:
			return unmask();
		case 21:
		case 22:
			return ask();
		default:
			switch (random_.below(3)) {
			case 0:
				return send();
			case 1:
				return recv();
			default:
				return select();
			}
		}
	}

	Random random_;
	std::array<Modelled, 3> chans_;
	sn_mutex mutex_ = SN_MUTEX_INIT;
	sn_cond cond_ = SN_COND_INIT;
	sn_rwlock rwlock_ = SN_RWLOCK_INIT;
	sn_semaphore semaphore_ = SN_SEMAPHORE_INIT(2);
	std::vector<Opened> scopes_;
	int last_value_ = 0, permits_ = 2, reads_ = 0, masks_ = 0;
	bool holds_ = false, writes_ = false;
};

TEST(Program, OneTaskAgreesWithTheModel)
{
	Random random;

	test::run([&] {
		for (int i = 0; i < programs(test::scaled(100)); i++) {
			const uint64_t seed = random.seed() + (uint64_t)i;

			Solo(seed).run();
			// Not SCOPED_TRACE, which belongs to a thread, because tasks change
			// threads.
			ASSERT_FALSE(HasFailure()) << "SENNIT_TEST_SEED=" << seed;
		}
	});
}

// ---- many, and their history ----

struct Event {
	enum What { sent, received, saw_closed, closed, closed_already } what;
	int chan;
	uint64_t element;
	uint64_t begin, end;
};

// The form of a call, which determines why it may fail besides cancellation.
enum class Form { tries, until, forever };

// Starts the body in the scope. If the scope is cancelled already, returns the reason.
int go(sn_scope *scope, std::function<int()> body)
{
	auto *kept = new std::function<int()>(std::move(body));
	const int err = sn_scope_go(
		scope,
		[](void *arg) {
			std::unique_ptr<std::function<int()>> own(
				static_cast<std::function<int()> *>(arg));

			return (*own)();
		},
		kept);

	if (err < 0)
		delete kept;
	return err;
}

class Crowd
{
public:
	Crowd(uint64_t seed, bool threads) : seed_(seed), random_(seed), with_threads_(threads)
	{
		static constexpr ssize_t capacities[] = {0, 0, 1, 2, 5, 40};

		for (auto &each : capacity_)
			each = capacities[random_.below(6)];
		for (size_t i = 0; i < chans_.size(); i++)
			chans_[i] = std::make_unique<test::Chan<uint64_t>>(capacity_[i]);
		for (auto &each : semaphores_)
			each.lock = (sn_semaphore)SN_SEMAPHORE_INIT(
				each.permits = 1 + (int)random_.below(3));
	}

	// Runs the program; called in a task.
	void run()
	{
		const int workers = 2 + (int)random_.below(10);
		std::vector<std::thread> threads;
		sn_scope *root = nullptr;

		end_ = sn_now() + 5 * ms + (int64_t)random_.below(20) * ms;
		ASSERT_EQ(0, sn_scope_open(&root, end_));
		for (int i = 0; with_threads_ && i < 2; i++)
			threads.emplace_back(
				[this, i] { Worker(*this, 1000 + i, 0, false).run(); });
		for (int i = 0; i < workers; i++)
			if (go(root, [this, i] { return Worker(*this, i, 0, true).run(); }) < 0)
				break;
		(void)!sn_scope_close(root);
		join_all(threads);
		check();
	}

	// Called in a task. Only the disturbing tasks have deadlines or are cancelled, so a wait
	// that is not ended by what should end it never ends.
	void serve()
	{
		const int producers = 1 + (int)random_.below(6),
			  consumers = 1 + (int)random_.below(4);
		std::vector<test::Task> tasks, consuming;
		sn_scope *disturbing = nullptr;

		ASSERT_EQ(0, sn_scope_open(&disturbing, SN_NO_DEADLINE));
		for (int i = 0; i < producers; i++)
			tasks.emplace_back([this, i] { Worker(*this, i, 0, true).produce(); });
		for (int i = 0; i < consumers; i++)
			consuming.emplace_back(
				[this, i] { Worker(*this, 100 + i, 0, true).consume(); });
		for (int i = (int)random_.below(3); i > 0; i--)
			ASSERT_EQ(0, go(disturbing, [this, i] {
					  return Worker(*this, 200 + i, 0, true).disturb();
				  }));
		Worker closer(*this, 300, 0, true);

		// Some channels are closed early, at a random time.
		for (size_t i = 0; i < channels; i++) {
			if (random_.below(3))
				continue;
			(void)!sn_sleep((int64_t)random_.below(500) * us);
			closer.close(i);
		}
		join_all(tasks);
		for (size_t i = 0; i < channels; i++)
			closer.close(i);
		closer.finish();
		join_all(consuming);
		EXPECT_EQ(0, sn_scope_cancel(disturbing));
		EXPECT_EQ(-ECANCELED, sn_scope_close(disturbing));
		check();
	}

private:
	static constexpr size_t channels = 4;

	struct Guarded {
		sn_mutex lock = SN_MUTEX_INIT;
		sn_cond cond = SN_COND_INIT;
		long uses = 0, items = 0; // under the lock
		std::atomic<long> expected_uses{0}, expected_items{0};
	};
	struct Shared {
		sn_rwlock lock = SN_RWLOCK_INIT;
		long writes = 0; // under the lock
		std::atomic<int> readers{0};
		std::atomic<long> expected_writes{0};
	};
	struct Permits {
		sn_semaphore lock;
		int permits;
		std::atomic<int> holders{0};
	};

	// One of the program's tasks or threads, and the events that it records.
	class Worker
	{
	public:
		Worker(Crowd &crowd, int number, int depth, bool task)
		    : crowd_(crowd), random_(crowd.seed_ * 7919 + (uint64_t)number * 104729 + 1),
		      number_(number), depth_(depth), task_(task)
		{
			crowd_.living_++;
		}

		// Sends to each channel a number of times or until it is closed, and waits as long
		// as necessary.
		void produce()
		{
			std::array<int, channels> left;

			for (auto &each : left)
				each = (int)random_.below(40);
			while (*std::max_element(left.begin(), left.end()) > 0) {
				std::array<sn_case, channels> cases;
				std::array<uint64_t, channels> elements;
				std::array<size_t, channels> chan;
				size_t n = 0;

				for (size_t i = 0; i < channels; i++) {
					if (left[i] == 0 || random_.below(2))
						continue;
					chan[n] = i;
					elements[n] = new_element();
					cases[n] = crowd_.chans_[i]->send_case(&elements[n]);
					n++;
				}
				if (n == 0)
					continue;
				if (n == 1 && random_.below(2))
					left[chan[0]] = send_patiently(chan[0], elements[0])
								? left[chan[0]] - 1
								: 0;
				else
					left[chan[choose(cases.data(), n, chan.data(),
							 elements.data())]] -= 1;
				for (size_t i = 0; i < channels; i++)
					if (saw_closed_[i])
						left[i] = 0;
				use_a_lock();
			}
			finish();
		}

		// Receives until all channels are closed and empty.
		void consume()
		{
			for (;;) {
				std::array<sn_case, channels> cases;
				std::array<uint64_t, channels> elements{};
				std::array<size_t, channels> chan;
				size_t n = 0;

				for (size_t i = 0; i < channels; i++) {
					if (saw_closed_[i])
						continue;
					chan[n] = i;
					cases[n] = crowd_.chans_[i]->recv_case(&elements[n]);
					n++;
				}
				if (n == 0)
					break;
				choose(cases.data(), n, chan.data(), elements.data());
				use_a_lock();
			}
			finish();
		}

		// Does anything, until it is cancelled.
		int disturb()
		{
			while (!sn_cancelled())
				simple_step();
			finish();
			return 0;
		}

		void close(size_t chan)
		{
			const uint64_t begin = stamp();
			const int err = crowd_.chans_[chan]->close();

			note(err ? Event::closed_already : Event::closed, (int)chan, 0, begin);
			if (err) {
				EXPECT_EQ(-EPIPE, err);
			}
		}

		void finish()
		{
			std::lock_guard<std::mutex> guard(crowd_.history_lock_);

			crowd_.history_.insert(crowd_.history_.end(), events_.begin(),
					       events_.end());
			events_.clear();
			crowd_.living_--;
		}

		int run()
		{
			const int steps = depth_ ? 10 : 60;
			int result = 0;

			for (int i = 0; i < steps && result == 0; i++) {
				if (sn_cancelled() || (!task_ && sn_now() > crowd_.end_))
					break;
				result = step();
			}
			finish();
			return result;
		}

	private:
		uint64_t stamp() { return crowd_.clock_.fetch_add(1); }

		// Plain threads are not cancelled, so they never wait without a deadline.
		Form form(int64_t *deadline)
		{
			const uint64_t n = random_.below(10);

			if (n < 3) {
				*deadline = SN_TRY;
				return Form::tries;
			}
			if (n < 6 || !task_) {
				*deadline = sn_now() + (int64_t)random_.below(500) * us;
				return Form::until;
			}
			*deadline = SN_NO_DEADLINE;
			return Form::forever;
		}

		void check(int err, Form form, int64_t deadline, int when_trying)
		{
			const int reason = sn_cancelled();

			if (err == 0 || (reason && err == reason))
				return;
			if (form == Form::tries)
				EXPECT_EQ(when_trying, err);
			else if (form == Form::until && err == -ETIMEDOUT)
				EXPECT_LE(deadline, sn_now());
			else
				ADD_FAILURE() << "error " << err << ", cancelled for " << reason;
		}

		void note(Event::What what, int chan, uint64_t element, uint64_t begin)
		{
			events_.push_back({what, chan, element, begin, stamp()});
		}

		uint64_t new_element() { return ((uint64_t)number_ << 32) + ++last_; }

		void send()
		{
			const int chan = (int)random_.below(crowd_.chans_.size());
			const uint64_t element = new_element(), begin = stamp();
			int64_t deadline;
			const Form how = form(&deadline);
			const int err = crowd_.chans_[(size_t)chan]->send(element, deadline);

			if (err == 0 || err == -EPIPE)
				note(err ? Event::saw_closed : Event::sent, chan, err ? 0 : element,
				     begin);
			else
				check(err, how, deadline, -EAGAIN);
		}

		void recv()
		{
			const int chan = (int)random_.below(crowd_.chans_.size());
			const uint64_t begin = stamp();
			uint64_t element = 0;
			int64_t deadline;
			const Form how = form(&deadline);
			const int err = crowd_.chans_[(size_t)chan]->recv(&element, deadline);

			if (err == 0 || err == -EPIPE)
				note(err ? Event::saw_closed : Event::received, chan,
				     err ? received_end : element, begin);
			else
				check(err, how, deadline, -EAGAIN);
		}

		void select()
		{
			const size_t n = 1 + random_.below(4);
			std::array<sn_case, 4> cases;
			std::array<uint64_t, 4> elements{};
			std::array<int, 4> chan{};
			int64_t deadline;
			const Form how = form(&deadline);

			for (size_t i = 0; i < n; i++) {
				chan[i] = (int)random_.below(crowd_.chans_.size());
				const auto &each = *crowd_.chans_[(size_t)chan[i]];

				if (random_.below(2)) {
					elements[i] = new_element();
					cases[i] = each.send_case(&elements[i]);
				} else {
					cases[i] = each.recv_case(&elements[i]);
				}
			}
			const uint64_t begin = stamp();
			const int chosen = sn_select(cases.data(), n, deadline);

			if (chosen < 0)
				return check(chosen, how, deadline, -EAGAIN);
			const sn_case &one = cases[(size_t)chosen];
			const bool sends = one.op == SN_CASE_SEND;

			if (one.result == 0)
				note(sends ? Event::sent : Event::received, chan[(size_t)chosen],
				     elements[(size_t)chosen], begin);
			else if (one.result == -EPIPE)
				note(Event::saw_closed, chan[(size_t)chosen],
				     sends ? 0 : received_end, begin);
			else
				ADD_FAILURE() << "a case's result is " << one.result;
		}

		// Returns false if the channel is closed.
		bool send_patiently(size_t chan, uint64_t element)
		{
			for (;;) {
				const uint64_t begin = stamp();
				const bool limited = random_.below(2) == 0;
				const int64_t deadline =
					limited ? sn_now() + (int64_t)random_.below(200) * us
						: SN_NO_DEADLINE;
				const int err = crowd_.chans_[chan]->send(element, deadline);

				if (limited && err == -ETIMEDOUT)
					continue;
				note(err ? Event::saw_closed : Event::sent, (int)chan,
				     err ? 0 : element, begin);
				saw_closed_[chan] = err != 0;
				EXPECT_TRUE(err == 0 || err == -EPIPE) << err;
				return err == 0;
			}
		}

		// Waits for one of the cases, as long as necessary. Records a closed channel.
		size_t choose(sn_case *cases, size_t n, const size_t *chan, uint64_t *elements)
		{
			for (;;) {
				const uint64_t begin = stamp();
				const bool limited = random_.below(2) == 0;
				const int64_t deadline =
					limited ? sn_now() + (int64_t)random_.below(200) * us
						: SN_NO_DEADLINE;
				const int chosen = sn_select(cases, n, deadline);

				if (limited && chosen == -ETIMEDOUT)
					continue;
				if (chosen < 0) {
					ADD_FAILURE() << "select: " << chosen;
					saw_closed_.fill(true);
					return 0;
				}
				const sn_case &one = cases[chosen];
				const bool sends = one.op == SN_CASE_SEND;

				saw_closed_[chan[chosen]] = one.result != 0;
				if (one.result)
					note(Event::saw_closed, (int)chan[chosen],
					     sends ? 0 : received_end, begin);
				else
					note(sends ? Event::sent : Event::received,
					     (int)chan[chosen], elements[chosen], begin);
				return (size_t)chosen;
			}
		}

		void use_a_lock()
		{
			switch (random_.below(8)) {
			case 0:
				return use_mutex();
			case 1:
				return use_rwlock();
			case 2:
				return use_semaphore();
			case 3:
				return dally();
			default:
				return;
			}
		}

		// Takes some time while holding a lock, so that others wait for it.
		void dally()
		{
			switch (random_.below(6)) {
			case 0:
				sn_yield();
				break;
			case 1:
				(void)!sn_sleep((int64_t)random_.below(50) * us);
				break;
			default:
				break;
			}
		}

		void use_mutex()
		{
			Guarded &guarded = crowd_.guarded_[random_.below(crowd_.guarded_.size())];
			int64_t deadline;
			const Form how = form(&deadline);
			const int err = how == Form::tries
						? sn_mutex_try_lock(&guarded.lock)
						: sn_mutex_lock_until(&guarded.lock, deadline);

			if (err < 0)
				return check(err, how, deadline, -EBUSY);
			const long before = guarded.uses;

			dally();
			guarded.uses = before + 1;
			guarded.expected_uses++;
			if (random_.below(3) == 0) {
				guarded.items++;
				guarded.expected_items++;
				EXPECT_LE(0, sn_cond_signal(&guarded.cond));
			} else if (random_.below(3) == 0) {
				wait_for_item(guarded);
			}
			EXPECT_EQ(0, sn_mutex_unlock(&guarded.lock));
		}

		void wait_for_item(Guarded &guarded)
		{
			int64_t deadline;
			Form how = form(&deadline);
			int err = 0;

			// There may never be another item. Then only cancellation ends the wait, if
			// there is a scope.
			if (how == Form::forever && !sn_scope_current()) {
				how = Form::until;
				deadline = sn_now() + (int64_t)random_.below(500) * us;
			}
			while (how != Form::tries && guarded.items == 0 && err == 0)
				err = sn_cond_wait_until(&guarded.cond, &guarded.lock, deadline);
			check(err, how, deadline, 0);
			if (guarded.items > 0) {
				guarded.items--;
				guarded.expected_items--;
			}
		}

		void use_rwlock()
		{
			Shared &shared = crowd_.shared_;
			const bool writes = random_.below(3) == 0;
			int64_t deadline;
			const Form how = form(&deadline);
			int err;

			if (how == Form::tries)
				err = writes ? sn_rwlock_try_write(&shared.lock)
					     : sn_rwlock_try_read(&shared.lock);
			else
				err = writes ? sn_rwlock_write_until(&shared.lock, deadline)
					     : sn_rwlock_read_until(&shared.lock, deadline);
			if (err < 0)
				return check(err, how, deadline, -EBUSY);
			const long before = shared.writes;

			if (writes) {
				EXPECT_EQ(0, shared.readers);
				dally();
				shared.writes = before + 1;
				shared.expected_writes++;
				EXPECT_EQ(0, sn_rwlock_write_unlock(&shared.lock));
				return;
			}
			shared.readers++;
			dally();
			EXPECT_EQ(before, shared.writes);
			shared.readers--;
			EXPECT_EQ(0, sn_rwlock_read_unlock(&shared.lock));
		}

		void use_semaphore()
		{
			Permits &permits =
				crowd_.semaphores_[random_.below(crowd_.semaphores_.size())];
			int64_t deadline;
			const Form how = form(&deadline);
			const int err =
				how == Form::tries
					? sn_semaphore_try_acquire(&permits.lock)
					: sn_semaphore_acquire_until(&permits.lock, deadline);

			if (err < 0)
				return check(err, how, deadline, -EAGAIN);
			EXPECT_GE(permits.permits, ++permits.holders);
			dally();
			permits.holders--;
			EXPECT_EQ(0, sn_semaphore_release(&permits.lock, 1));
		}

		void nest()
		{
			std::atomic<int> alive{0};
			std::atomic<bool> failed{false};
			bool cancelled = false;
			sn_scope *scope = nullptr;
			const int64_t deadline =
				random_.below(2) ? SN_NO_DEADLINE
						 : sn_now() + (int64_t)random_.below(2000) * us;
			const int err = sn_scope_open(&scope, deadline);

			if (err < 0)
				return check(err, Form::forever, 0, 0);
			for (uint64_t i = 0, n = 1 + random_.below(3); i < n; i++) {
				const int number = crowd_.next_number_++;
				alive++;
				if (go(scope, [this, number, &alive, &failed] {
					    const int result =
						    Worker(crowd_, number, depth_ + 1, true).run();

					    failed = failed || result < 0;
					    alive--;
					    return result;
				    }) < 0)
					alive--;
			}
			for (uint64_t i = random_.below(5); i > 0; i--)
				simple_step();
			if (random_.below(4) == 0) {
				EXPECT_EQ(0, sn_scope_cancel(scope));
				cancelled = true;
			}
			const int result = sn_scope_close(scope);

			EXPECT_EQ(0, alive);
			EXPECT_GE(0, result);
			if (failed || cancelled) {
				EXPECT_NE(0, result);
			}
		}

		void simple_step()
		{
			switch (random_.below(16)) {
			case 0:
				return use_mutex();
			case 1:
				return use_rwlock();
			case 2:
				return use_semaphore();
			case 3:
				return dally();
			case 4:
			case 5:
			case 6:
			case 7:
				return send();
			case 8:
			case 9:
			case 10:
			case 11:
				return recv();
			default:
				return select();
			}
		}

		// Returns the result with which the task has to end, or 0 to continue.
		int step()
		{
			switch (random_.below(200)) {
			case 0:
				close(random_.below(channels));
				return 0;
			case 1:
				return depth_ ? -EDOM : 0;
			case 2:
				if (task_ && depth_) {
					EXPECT_EQ(0, sn_scope_cancel(sn_scope_current()));
				}
				return 0;
			case 3:
			case 4:
			case 5:
			case 6:
				if (task_ && depth_ < 3)
					nest();
				return 0;
			default:
				simple_step();
				return 0;
			}
		}

		Crowd &crowd_;
		Random random_;
		int number_, depth_;
		bool task_;
		uint64_t last_ = 0;
		// whether it has seen that a channel is closed
		std::array<bool, channels> saw_closed_{};
		std::vector<Event> events_;
	};

	// the element in the event of a receive that found the channel closed
	static constexpr uint64_t received_end = 1;

	void check()
	{
		EXPECT_EQ(0, living_);
		drain();
		for (size_t i = 0; i < chans_.size(); i++)
			check_channel((int)i);
		check_locks();
	}

	void drain()
	{
		for (size_t i = 0; i < chans_.size(); i++) {
			uint64_t element;

			for (;;) {
				const uint64_t begin = clock_++;

				if (chans_[i]->try_recv(&element) != 0)
					break;
				history_.push_back(
					{Event::received, (int)i, element, begin, clock_++});
			}
			EXPECT_EQ(0u, chans_[i]->senders() + chans_[i]->receivers());
		}
	}

	void check_channel(int chan)
	{
		std::vector<Event> sent;
		std::map<uint64_t, Event> received;
		std::vector<Event> ends, all;
		const Event *closed = nullptr;

		for (const auto &each : history_)
			if (each.chan == chan)
				all.push_back(each);
		for (const auto &each : all) {
			if (each.what == Event::sent)
				sent.push_back(each);
			if (each.what == Event::received) {
				ASSERT_TRUE(received.emplace(each.element, each).second)
					<< "received twice";
			}
			if (each.what == Event::saw_closed && each.element == received_end)
				ends.push_back(each);
			if (each.what == Event::closed) {
				ASSERT_EQ(nullptr, closed) << "closed twice";
				closed = &each;
			}
		}
		ASSERT_EQ(sent.size(), received.size()) << "lost, or never sent";
		for (const auto &each : sent) {
			ASSERT_EQ(1u, received.count(each.element)) << "lost";
			ASSERT_LT(each.begin, received[each.element].end) << "before it was sent";
			ASSERT_TRUE(!closed || each.begin < closed->end) << "sent when closed";
		}
		// The end of a channel, or a second close, is seen only after a close has begun.
		for (const auto &each : all)
			if (each.what == Event::saw_closed || each.what == Event::closed_already) {
				ASSERT_TRUE(closed && closed->begin < each.end) << "not closed";
			}
		for (const auto &each : ends)
			for (const auto &other : received)
				ASSERT_LT(other.second.begin, each.end) << "received past the end";
		check_order(sent, received);
		check_capacity(chan, sent, received);
	}

	// An element that was certainly sent before another was not certainly received after it.
	static void check_order(std::vector<Event> &sent, std::map<uint64_t, Event> &received)
	{
		for (const auto &first : sent)
			for (const auto &second : sent)
				if (first.end < second.begin) {
					ASSERT_LT(received[first.element].begin,
						  received[second.element].end)
						<< "out of order";
				}
	}

	// At no time had more elements certainly been sent than fit into the channel and into
	// receives that had begun.
	void check_capacity(int chan, const std::vector<Event> &sent,
			    const std::map<uint64_t, Event> &received)
	{
		std::vector<std::pair<uint64_t, int>> changes;
		long in_it = 0;

		for (const auto &each : sent)
			changes.emplace_back(each.end, 1);
		for (const auto &each : received)
			changes.emplace_back(each.second.begin, -1);
		std::sort(changes.begin(), changes.end());
		for (const auto &each : changes) {
			in_it += each.second;
			ASSERT_GE(capacity_[(size_t)chan], in_it) << "more than fit";
		}
	}

	void check_locks()
	{
		for (auto &each : guarded_) {
			EXPECT_EQ(each.expected_uses, each.uses);
			EXPECT_EQ(each.expected_items, each.items);
			ASSERT_EQ(0, sn_mutex_try_lock(&each.lock)) << "still locked";
			EXPECT_EQ(0, sn_mutex_unlock(&each.lock));
		}
		EXPECT_EQ(shared_.expected_writes, shared_.writes);
		ASSERT_EQ(0, sn_rwlock_try_write(&shared_.lock)) << "still locked";
		EXPECT_EQ(0, sn_rwlock_write_unlock(&shared_.lock));
		for (auto &each : semaphores_) {
			for (int i = 0; i < each.permits; i++)
				EXPECT_EQ(0, sn_semaphore_try_acquire(&each.lock))
					<< "a permit is lost";
			EXPECT_EQ(-EAGAIN, sn_semaphore_try_acquire(&each.lock))
				<< "one permit too many";
		}
	}

	const uint64_t seed_;
	Random random_;
	const bool with_threads_;
	int64_t end_ = 0;
	std::array<ssize_t, channels> capacity_{};
	std::array<std::unique_ptr<test::Chan<uint64_t>>, channels> chans_;
	std::array<Guarded, 2> guarded_;
	Shared shared_;
	std::array<Permits, 2> semaphores_;
	std::atomic<uint64_t> clock_{1};
	std::atomic<int> living_{0}, next_number_{2000};
	std::mutex history_lock_;
	std::vector<Event> history_; // under the lock
};

// Several programs run at a time, because a program mostly waits.
constexpr int batch = 8;

template <class F>
void crowds(F program)
{
	Random random;
	int done = 0;

	test::run({1, 2, 4}, [&] {
		for (int i = 0; i < programs(test::scaled(160)); i += batch) {
			const uint64_t first = random.seed() + (uint64_t)done;
			std::vector<test::Task> running;

			for (int j = 0; j < batch; j++)
				running.emplace_back([=] { program(first + (uint64_t)j); });
			join_all(running);
			done += batch;
			ASSERT_FALSE(testing::Test::HasFailure()) << "SENNIT_TEST_SEED=" << first;
		}
	});
}

TEST(Program, ManyTasksHaveAPossibleHistory)
{
	crowds([](uint64_t seed) { Crowd(seed, false).run(); });
}

TEST(Program, TasksAndPlainThreadsHaveAPossibleHistory)
{
	crowds([](uint64_t seed) { Crowd(seed, true).run(); });
}

TEST(Program, EveryWaitThatShouldEndEnds)
{
	crowds([](uint64_t seed) { Crowd(seed, false).serve(); });
}

} // namespace
