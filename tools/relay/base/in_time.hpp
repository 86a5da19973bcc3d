/* SPDX-License-Identifier: MIT */
/*
 * Calls that block on the file system, with a limit of time.
 *
 * No path can be trusted to answer: open(2) of a FIFO waits for its other end, and each call on a
 * network file system waits for its server, in some cases forever. Nothing interrupts such a call,
 * so it runs in a thread of its own. When the time is over, the thread is left behind, and the
 * call's result is destroyed when it arrives.
 *
 * The call must own everything that it uses, or use what lives as long as the process. While
 * calls_left_behind() is not 0, the process must end without destroying anything (_Exit()).
 */
#ifndef RELAY_IN_TIME_HPP
#define RELAY_IN_TIME_HPP

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

namespace relay
{

/* How long a call may take, unless its caller says otherwise. A signal to stop may have to wait
 * that long. */
constexpr std::chrono::nanoseconds path_patience = std::chrono::seconds(5);

/* The reason that is given when the time is over. */
inline constexpr const char *no_answer = "the file system does not answer";

/* How many calls still run in a thread. */
std::size_t calls_left_behind() noexcept;

/* Counts as one such call for as long as it lives. */
class call_in_thread
{
public:
	call_in_thread() noexcept;
	call_in_thread(const call_in_thread &) = delete;
	call_in_thread &operator=(const call_in_thread &) = delete;
	~call_in_thread();

	/* False if too many calls were left behind, because each keeps its thread until it ends. */
	static bool is_allowed() noexcept;
};

/* Null, except in tests of a shortage, which set it before main(). It is called before a call
 * gets its thread; if it throws, that counts as the system's refusal. */
extern void (*refuse_call)();

/* A turn for calls of which only one at a time may be under way. A call that is left behind
 * keeps the turn until it ends. */
class turn_of_calls
{
public:
	/* Returns the turn, which the call owns and drops at its end; null if another call has
	 * it. */
	std::shared_ptr<void> take()
	{
		if (is_taken_->exchange(true))
			return nullptr;
		return {is_taken_.get(), [its = is_taken_](void *) { its->store(false); }};
	}

private:
	std::shared_ptr<std::atomic<bool>> is_taken_ = std::make_shared<std::atomic<bool>>(false);
};

/*
 * Returns what the call returns, or nothing if it takes longer than that. Throws what the call
 * throws, and throws if no thread can be started. The stack is as large as the system's default,
 * also for parsers whose recursion has no known bound. May park.
 */
template <class Call>
auto call_in_time(Call call, std::chrono::nanoseconds patience = path_patience)
	-> std::optional<std::invoke_result_t<Call &>>
{
	using result = std::invoke_result_t<Call &>;

	if (!call_in_thread::is_allowed())
		return std::nullopt;
	std::promise<result> promise;
	auto future = promise.get_future();
	auto counted = std::make_unique<call_in_thread>();
	if (refuse_call)
		refuse_call();
	std::thread([call = std::move(call), promise = std::move(promise),
		     counted = std::move(counted)]() mutable {
		try {
			promise.set_value(call());
		} catch (...) {
			promise.set_exception(std::current_exception());
		}
	}).detach();
	const auto done = sn::blocking([&] { return future.wait_for(patience); });
	if (done != std::future_status::ready)
		return std::nullopt;
	return future.get();
}

} // namespace relay

#endif
