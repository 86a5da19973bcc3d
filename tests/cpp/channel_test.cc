/* SPDX-License-Identifier: MIT */
/* Channels and select through the C++ interface: the lifetimes of elements, results, ranges,
 * errors. */
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

namespace
{

std::atomic<int> living = 0;

/* A type that can only be moved, by a move that does not throw. Counts the living objects,
 * moved-from ones included. */
struct moving {
	explicit moving(int v) : value(v), self(this) { living++; }
	moving(moving &&other) noexcept : value(std::exchange(other.value, -1)), self(this)
	{
		EXPECT_EQ(other.self, &other) << "was copied byte by byte";
		living++;
	}
	moving &operator=(moving &&other) noexcept
	{
		value = std::exchange(other.value, -1);
		return *this;
	}
	~moving()
	{
		EXPECT_EQ(self, this);
		living--;
	}
	int value;
	moving *self;
};

/* A type whose move may throw. */
struct throwing {
	explicit throwing(int v) : value(v) { living++; }
	throwing(throwing &&other) noexcept(false) : value(other.value)
	{
		if (value == 13)
			throw std::runtime_error("13");
		other.value = -1;
		living++;
	}
	throwing(const throwing &) = delete;
	~throwing() { living--; }
	int value;
};

static_assert(sn::detail::carried_in_place<int>);
static_assert(sn::detail::carried_in_place<std::string>);
static_assert(sn::detail::carried_in_place<moving>);
static_assert(!sn::detail::carried_in_place<throwing>);
static_assert(sn::detail::elem_ops<std::array<int, 4>>() == nullptr);
static_assert(std::input_iterator<sn::channel<moving>::iterator>);
static_assert(std::is_nothrow_move_constructible_v<sn::channel<int>>);

template <class E>
void waits_in(const sn::channel<E> &chan)
{
	/* The wait cannot be seen from outside, but if the task waits later, the outcome is the
	 * same. */
	static_cast<void>(chan);
	for (int i = 0; i < 10; i++)
		sn::yield();
}

TEST(CppChannel, PassesValuesOn)
{
	sn::run([] {
		sn::channel<int> numbers;
		sn::channel<std::string> texts(2);
		auto sender = sn::spawn([numbers, texts] {
			for (int i = 0; i < 3; i++) {
				numbers.send(i).value();
				texts.send("number " + std::to_string(i) + " of a long text")
					.value();
			}
		});
		for (int i = 0; i < 3; i++)
			EXPECT_EQ(numbers.recv().value(), i);
		for (int i = 0; i < 3; i++)
			EXPECT_EQ(texts.recv().value(),
				  "number " + std::to_string(i) + " of a long text");
		sender.join();
		EXPECT_EQ(texts.capacity(), 2u);
		EXPECT_EQ(texts.size(), 0u);
	});
}

TEST(CppChannel, CopiesLvalues)
{
	sn::channel<std::string> chan(2);
	const std::string text = "a text too long for the small string optimisation";
	std::string mine = text;

	EXPECT_TRUE(chan.send(text));
	EXPECT_TRUE(chan.send(mine));
	EXPECT_EQ(mine, text);
	EXPECT_EQ(chan.recv().value(), text);
	EXPECT_EQ(chan.try_recv().value(), text);
}

TEST(CppChannel, HandlesShareTheChannel)
{
	sn::channel<int> a(1), b = a, none = nullptr;

	EXPECT_EQ(a, b);
	EXPECT_FALSE(a == none);
	EXPECT_FALSE(none);
	EXPECT_TRUE(b.send(1));
	sn::channel<int> c = std::move(b);
	EXPECT_FALSE(b); // NOLINT: a handle that was moved from is empty, as promised
	a = nullptr;
	EXPECT_EQ(c.recv().value(), 1);
	EXPECT_EQ(none.send(1).error(), std::errc::invalid_argument);
	EXPECT_EQ(none.recv().error(), std::errc::invalid_argument);
	EXPECT_FALSE(none.close());
	EXPECT_THROW(sn::channel<int>(SIZE_MAX), std::system_error);
}

TEST(CppChannel, AFailedSendLeavesTheValue)
{
	sn::channel<std::unique_ptr<int>> chan(1);
	auto first = std::make_unique<int>(1), second = std::make_unique<int>(2);

	EXPECT_TRUE(chan.send(std::move(first)));
	EXPECT_EQ(chan.try_send(std::move(second)).error(),
		  std::errc::resource_unavailable_try_again);
	ASSERT_TRUE(second);
	EXPECT_EQ(chan.send(std::move(second), sn::now()).error(), std::errc::timed_out);
	ASSERT_TRUE(second);
	EXPECT_TRUE(chan.close());
	EXPECT_FALSE(chan.close());
	EXPECT_EQ(chan.send(std::move(second)).error(), std::errc::broken_pipe);
	EXPECT_EQ(*second, 2);
	EXPECT_EQ(*chan.recv().value(), 1);
	EXPECT_EQ(chan.recv().error(), std::errc::broken_pipe);
	EXPECT_THROW(chan.recv().value(), std::system_error);
}

template <class E>
void destroys_all()
{
	living = 0;
	sn::run([] {
		sn::channel<E> chan(4), meeting;
		for (int i = 0; i < 4; i++)
			EXPECT_TRUE(chan.send(E(i)));
		EXPECT_EQ(living, 4);
		EXPECT_FALSE(chan.try_send(E(4)));
		EXPECT_EQ(living, 4);
		EXPECT_EQ(chan.recv().value().value, 0);
		EXPECT_EQ(living, 3);

		/* The element moves from stack to stack, in both orders. */
		auto receiver = sn::spawn([meeting] { return meeting.recv().value().value; });
		waits_in(meeting);
		EXPECT_TRUE(meeting.send(E(5)));
		EXPECT_EQ(receiver.join(), 5);
		auto sender = sn::spawn([meeting] { meeting.send(E(6)).value(); });
		waits_in(meeting);
		EXPECT_EQ(meeting.recv().value().value, 6);
		sender.join();
		EXPECT_EQ(living, 3);

		/* A send that times out, and a send that the close ends. */
		EXPECT_FALSE(meeting.send(E(7), sn::after(1ms)));
		auto closed = sn::spawn(
			[meeting] { return meeting.send(E(8)).error() == std::errc::broken_pipe; });
		waits_in(meeting);
		meeting.close();
		EXPECT_TRUE(closed.join());
		chan.close();
		EXPECT_EQ(living, 3) << "closing keeps the values that were sent";
		EXPECT_EQ(chan.recv().value().value, 1);
	});
	EXPECT_EQ(living, 0) << "the channel has destroyed what was left";
}

TEST(CppChannel, DestroysEachElementOnce)
{
	destroys_all<moving>();
	destroys_all<throwing>();
}

TEST(CppChannel, AMoveThatThrowsLosesNothingElse)
{
	living = 0;
	sn::run([] {
		sn::channel<throwing> chan(2);
		throwing bad(13);

		EXPECT_THROW(chan.send(std::move(bad)).value(), std::runtime_error);
		EXPECT_EQ(bad.value, 13);
		EXPECT_EQ(chan.size(), 0u) << "it was thrown before anything was sent";
		EXPECT_TRUE(chan.send(throwing(1)));
		EXPECT_EQ(chan.recv().value().value, 1);
	});
	EXPECT_EQ(living, 0);
}

TEST(CppChannel, OverAlignedElementsStayAligned)
{
	struct alignas(128) wide {
		wide() = default;
		wide(wide &&other) noexcept : value(other.value) {}
		int value = 3;
	};
	sn::channel<wide> chan(3);

	for (int i = 0; i < 3; i++)
		EXPECT_TRUE(chan.send(wide()));
	for (int i = 0; i < 3; i++) {
		auto got = chan.recv();
		EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&*got) % 128, 0u);
		EXPECT_EQ(got->value, 3);
	}
}

TEST(CppChannel, IsARangeUntilItIsClosed)
{
	sn::run([] {
		sn::channel<moving> chan(3);
		auto sender = sn::spawn([chan] {
			for (int i = 1; i <= 100; i++)
				chan.send(moving(i)).value();
			chan.close();
		});
		int sum = 0;
		for (moving &each : chan)
			sum += each.value;
		EXPECT_EQ(sum, 5050);
		sender.join();
		for (moving &each : chan)
			ADD_FAILURE() << each.value;
	});
}

TEST(CppChannel, CancellationEndsALoopByAnException)
{
	sn::run([] {
		sn::channel<int> chan;
		sn::scope all;
		bool left = false;

		all.go([&] {
			try {
				for (int each : chan)
					ADD_FAILURE() << each;
			} catch (const std::system_error &error) {
				EXPECT_EQ(error.code(), std::errc::operation_canceled);
				left = true;
			}
		});
		waits_in(chan);
		all.cancel();
		EXPECT_EQ(all.join().error(), std::errc::operation_canceled);
		EXPECT_TRUE(left);
	});
}

TEST(CppChannel, ServesPlainThreads)
{
	sn::run([] {
		sn::channel<std::string> there, back(1);
		std::thread thread([=] {
			for (std::string &text : there)
				back.send(text + "!").value();
			back.close();
		});
		for (int i = 0; i < 100; i++) {
			there.send(std::to_string(i)).value();
			EXPECT_EQ(back.recv().value(), std::to_string(i) + "!");
		}
		there.close();
		EXPECT_FALSE(back.recv());
		thread.join();
	});
}

TEST(CppSelect, CallsTheFunctionOfTheChosenCase)
{
	sn::run([] {
		sn::channel<int> numbers(1);
		sn::channel<std::string> texts(1);
		int number = 0, sent = 0;

		auto chosen = sn::select(
			numbers.on_recv([&](sn::result<int> got) { number = got.value(); }),
			texts.on_send("text", [&](sn::result<void> done) { sent += bool(done); }));
		EXPECT_EQ(chosen.value(), 1u);
		EXPECT_EQ(sent, 1);
		EXPECT_EQ(number, 0);
		numbers.send(7).value();
		chosen = sn::select(
			texts.on_send("more", [&] { sent++; }),
			numbers.on_recv([&](sn::result<int> got) { number = got.value(); }));
		EXPECT_EQ(chosen.value(), 1u);
		EXPECT_EQ(number, 7);
		EXPECT_EQ(sent, 1);
		EXPECT_EQ(texts.recv().value(), "text");
	});
}

TEST(CppSelect, WaitsForTheFirst)
{
	sn::run([] {
		sn::channel<moving> a, b;
		auto sender = sn::spawn([b] {
			sn::sleep(1ms);
			b.send(moving(3)).value();
		});
		int got = 0;

		EXPECT_EQ(sn::select(a.on_recv([] { ADD_FAILURE(); }),
				     b.on_recv([&](sn::result<moving> m) { got = m->value; }))
				  .value(),
			  1u);
		EXPECT_EQ(got, 3);
		sender.join();
	});
	EXPECT_EQ(living, 0);
}

TEST(CppSelect, AClosedChannelIsReportedAsClosed)
{
	sn::channel<int> chan;
	bool recv_closed = false, send_closed = false;

	chan.close();
	sn::select(chan.on_recv([&](sn::result<int> got) {
		recv_closed = got.error() == std::errc::broken_pipe;
	})).value();
	sn::select(chan.on_send(1, [&](sn::result<void> done) {
		send_closed = done.error() == std::errc::broken_pipe;
	})).value();
	EXPECT_TRUE(recv_closed);
	EXPECT_TRUE(send_closed);
}

TEST(CppSelect, HasADefaultAndADeadline)
{
	sn::run([] {
		sn::channel<int> chan, none = nullptr;
		int defaults = 0, deadlines = 0;

		EXPECT_EQ(sn::select(chan.on_recv([] { ADD_FAILURE(); }),
				     sn::otherwise([&] { defaults++; }))
				  .value(),
			  1u);
		const auto until = sn::after(1ms);
		EXPECT_EQ(sn::select(sn::on_deadline(until, [&] { deadlines++; }),
				     chan.on_send(1, [] { ADD_FAILURE(); }),
				     none.on_recv([] { ADD_FAILURE(); }))
				  .value(),
			  0u);
		EXPECT_GE(sn::now(), until);
		EXPECT_EQ(defaults, 1);
		EXPECT_EQ(deadlines, 1);
		EXPECT_EQ(sn::select(sn::otherwise([&] { defaults++; })).value(), 0u);

		sn::scope limited(sn::after(1ms));
		EXPECT_EQ(sn::select(chan.on_recv([] { ADD_FAILURE(); }),
				     sn::on_deadline(sn::after(1h), [] { ADD_FAILURE(); }))
				  .error(),
			  std::errc::timed_out)
			<< "the scope's deadline, not the select's";
		EXPECT_FALSE(limited.join());
	});
}

TEST(CppSelect, ExceptionsOfItsFunctionsPropagate)
{
	living = 0;
	sn::run([] {
		sn::channel<moving> chan(1);

		chan.send(moving(1)).value();
		const auto thrower = [](sn::result<moving>) { throw std::runtime_error("a case"); };
		EXPECT_THROW(sn::select(chan.on_recv(thrower)).value(), std::runtime_error);
		EXPECT_EQ(living, 0);
	});
}

template <class E>
void what_is_not_sent_is_destroyed()
{
	living = 0;
	sn::run([] {
		sn::channel<E> full, open(1);
		sn::select(full.on_send(E(1), [] { ADD_FAILURE(); }), open.on_send(E(2), [] {
		})).value();
		EXPECT_EQ(living, 1);
		/* An element was received, but the case ignores it. */
		sn::select(open.on_recv([] {})).value();
		EXPECT_EQ(living, 0);
	});
}

TEST(CppSelect, UnsentValuesAreDestroyed)
{
	what_is_not_sent_is_destroyed<moving>();
	what_is_not_sent_is_destroyed<throwing>();
}

/* The value of a case that was done is gone; the case is not ready any more. */
template <class E>
void a_value_is_sent_once()
{
	living = 0;
	sn::run([] {
		sn::channel<E> chan(3);
		int sent = 0, others = 0;
		auto out = chan.on_send(E(1), [&] { sent++; });

		EXPECT_EQ(sn::select(out).value(), 0U);
		EXPECT_EQ(sn::select(out, sn::otherwise([&] { others++; })).value(), 1U);
		EXPECT_EQ(sent, 1);
		EXPECT_EQ(others, 1);
		EXPECT_EQ(chan.size(), 1U);
		while (chan.size() > 0)
			EXPECT_EQ(chan.recv().value().value, 1);

		/* One that was not done yet can be used again. */
		sn::channel<E> full, closed;
		auto later = full.on_send(E(2), [&] { sent++; });
		EXPECT_EQ(sn::select(later, sn::otherwise([] {})).value(), 1U);
		auto receiver = sn::spawn([&] { return full.recv().value().value; });
		EXPECT_EQ(sn::select(later).value(), 0U);
		EXPECT_EQ(receiver.join(), 2);
		EXPECT_EQ(sent, 2);
		closed.close();
		auto never = closed.on_send(E(3), [&](sn::result<void> how) {
			EXPECT_EQ(how.error(), std::errc::broken_pipe);
		});
		for (int i = 0; i < 2; i++)
			EXPECT_EQ(sn::select(never).value(), 0U);
	});
	EXPECT_EQ(living, 0);
}

TEST(CppSelect, AValueIsSentOnce)
{
	a_value_is_sent_once<moving>();
	a_value_is_sent_once<throwing>();
}

/* Many tasks at the same time; each element arrives once. */
template <class E>
void stress()
{
	living = 0;
	sn::run([] {
		sn::channel<E> chans[] = {sn::channel<E>(0), sn::channel<E>(3)};
		std::atomic<long> sum = 0;
		sn::scope all;
		std::atomic<int> senders = 4;

		for (int t = 0; t < 4; t++) {
			all.go([&] {
				for (int i = 1; i <= 500; i++)
					sn::select(chans[0].on_send(E(i + 100), [] {}),
						   chans[1].on_send(E(i + 100), [] {}))
						.value();
				if (--senders == 0)
					for (auto &chan : chans)
						chan.close();
			});
			all.go([&] {
				for (;;) {
					bool closed = false;
					const auto take = [&](sn::result<E> got) {
						if (got)
							sum += got->value;
						else
							closed = true;
					};
					sn::select(chans[0].on_recv(take), chans[1].on_recv(take))
						.value();
					if (closed) {
						for (auto &chan : chans)
							for (E &each : chan)
								sum += each.value;
						break;
					}
				}
			});
		}
		EXPECT_TRUE(all.join());
		EXPECT_EQ(sum, 4L * (500 * 501 / 2 + 500 * 100));
	});
	EXPECT_EQ(living, 0);
}

TEST(CppSelect, ManyAtOnceLoseNothing)
{
	stress<moving>();
	stress<throwing>();
}

} // namespace
