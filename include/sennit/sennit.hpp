/* SPDX-License-Identifier: MIT */
/*
 * The C++20 face of sennit: the objects of the C headers as values that own what they hold.
 * Header-only; include it and link the C library. `sn` is short for the namespace.
 *
 *	int main()
 *	{
 *		return sn::run([] {
 *			auto door = sn::tcp_listener::listen("127.0.0.1:7000").value();
 *			for (;;)
 *				sn::go([peer = door.accept().value()]() mutable { greet(peer); });
 *		});
 *	}
 *
 * What differs from the C headers, whose comments say all the rest:
 *
 *  - Errors. A call on a connection can fail in the ordinary course of things, so it returns a
 *    sn::result, to be tested, or turned into an exception by value(). Starting the runtime or a
 *    task fails as starting a std::thread does: it throws std::system_error. So does a call that
 *    only a task may make, made outside of one (EPERM): that is a mistake in the program.
 *  - Exceptions may be thrown and caught in tasks freely, also around calls that park; the
 *    exception that is being handled belongs to the task. One that leaves a task's function is
 *    rethrown by run(), task::join() and scope::join(); from a detached task (go()) nobody could
 *    catch it, so the task is named on stderr and std::terminate() called.
 *  - Cancellation. In a scope that is cancelled the calls that return results fail with its reason
 *    (std::errc::operation_canceled, timed_out); those that return nothing, such as sleep(), throw it.
 *  - Time. Durations are any std::chrono durations, saturated to the nanoseconds that the runtime
 *    counts in. Points in time are on sn::clock; sn::no_deadline means "never".
 *  - Tasks that are alive when run() returns are abandoned, as in C: the destructors of what lies
 *    on their stacks do not run.
 *
 * Threads outside the runtime and signal handlers: what the C headers say of the calls underneath.
 */
#ifndef SENNIT_SENNIT_HPP
#define SENNIT_SENNIT_HPP

#if __cplusplus < 202002L
#	error "sennit.hpp is C++20: compile with -std=c++20; sennit.h serves older modes"
#endif

#include <sennit/clock.hpp>
#include <sennit/collector.h>
#include <sennit/sennit.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

namespace sennit
{

/* ---- results ----------------------------------------------------------------------------- */

/* An errno value on its way into a sn::result. */
struct failure {
	int number;
};

/*
 * A T, or the error that there is instead; as std::expected<T, std::error_code>. The error is in
 * std::generic_category(), so it compares with std::errc: `r.error() == std::errc::timed_out`.
 * value() throws the error as std::system_error; * and -> are for who has tested.
 */
template <class T>
class [[nodiscard]] result
{
public:
	result(T value) : either_(std::in_place_index<0>, std::move(value)) {}
	result(failure error) : either_(std::in_place_index<1>, error.number) {}

	bool has_value() const noexcept { return either_.index() == 0; }
	explicit operator bool() const noexcept { return has_value(); }

	/* No error, which is false, when there is a value. */
	std::error_code error() const noexcept
	{
		const int *number = std::get_if<1>(&either_);
		return {number ? *number : 0, std::generic_category()};
	}

	T &value() & { return check(), **this; }
	const T &value() const & { return check(), **this; }
	T &&value() && { return check(), *std::move(*this); }

	T value_or(T other) && { return has_value() ? *std::move(*this) : std::move(other); }

	T &operator*() &noexcept { return *std::get_if<0>(&either_); }
	const T &operator*() const &noexcept { return *std::get_if<0>(&either_); }
	T &&operator*() &&noexcept { return std::move(*std::get_if<0>(&either_)); }
	T *operator->() noexcept { return std::get_if<0>(&either_); }
	const T *operator->() const noexcept { return std::get_if<0>(&either_); }

private:
	void check() const
	{
		if (!has_value())
			throw std::system_error(error());
	}

	std::variant<T, int> either_;
};

/* Success, or the error that there is instead. */
template <>
class [[nodiscard]] result<void>
{
public:
	result() = default;
	result(failure error) : number_(error.number) {}

	bool has_value() const noexcept { return number_ == 0; }
	explicit operator bool() const noexcept { return has_value(); }
	std::error_code error() const noexcept { return {number_, std::generic_category()}; }

	void value() const
	{
		if (number_ != 0)
			throw std::system_error(error());
	}

private:
	int number_ = 0;
};

namespace detail
{

/* From what C calls return: a negative errno value or a result. */
inline result<void> nothing_or_error(long returned)
{
	return returned < 0 ? result<void>(failure{static_cast<int>(-returned)}) : result<void>();
}

inline result<std::size_t> size_or_error(ssize_t returned)
{
	if (returned < 0)
		return failure{static_cast<int>(-returned)};
	return static_cast<std::size_t>(returned);
}

inline void throw_if_error(int returned, const char *call)
{
	if (returned < 0)
		throw std::system_error(-returned, std::generic_category(), call);
}

/* Called while the exception is being handled, so that terminate's report can show it. */
[[noreturn]] inline void exception_left_task() noexcept
{
	const sn_task *self = sn_self();
	std::fprintf(stderr, "sennit: an exception left the detached task %llu \"%s\"\n",
		     self ? static_cast<unsigned long long>(sn_task_id(self)) : 0ULL,
		     self ? sn_task_name(self) : "");
	std::terminate();
}

/* What a callable left behind: a value, nothing, or an exception. */
template <class T>
class outcome
{
	static_assert(!std::is_reference_v<T>, "return a value or a pointer, not a reference");
	using stored = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

public:
	template <class F>
	void take_from(F &f) noexcept
	{
		try {
			if constexpr (std::is_void_v<T>) {
				std::invoke(f);
				value_.emplace();
			} else {
				value_.emplace(std::invoke(f));
			}
		} catch (...) {
			exception_ = std::current_exception();
		}
	}

	bool is_exception() const noexcept { return exception_ != nullptr; }

	T get() &&
	{
		if (exception_)
			std::rethrow_exception(std::move(exception_));
		if constexpr (!std::is_void_v<T>)
			return *std::move(value_);
	}

private:
	std::optional<stored> value_;
	std::exception_ptr exception_;
};

} // namespace detail

/* ---- time -------------------------------------------------------------------------------- */

/* A point on sn::clock (clock.hpp). */
using deadline = clock::time_point;

/* In place of a deadline: never. */
inline constexpr deadline no_deadline{clock::duration(SN_NO_DEADLINE)};

/* The present. */
inline clock::time_point now() noexcept
{
	return clock::now();
}

namespace detail
{

/* A duration in nanoseconds, saturated: hours::max() is a long time, not a negative one. */
template <class Rep, class Period>
constexpr std::int64_t to_ns(std::chrono::duration<Rep, Period> d)
{
	using std::chrono::nanoseconds;
	using wide = std::chrono::duration<long double, std::nano>;
	if (wide(d) >= wide(nanoseconds::max()))
		return nanoseconds::max().count();
	if (wide(d) <= wide(nanoseconds::min()))
		return nanoseconds::min().count();
	return std::chrono::ceil<nanoseconds>(d).count();
}

inline std::int64_t to_ns(deadline d)
{
	return d.time_since_epoch().count();
}

} // namespace detail

/* The point in time that lies d after now; a d too long to add is never. */
template <class Rep, class Period>
deadline after(std::chrono::duration<Rep, Period> d)
{
	const std::int64_t start = sn_now();
	const std::int64_t ns = detail::to_ns(d);
	if (ns > INT64_MAX - start)
		return no_deadline;
	return deadline(clock::duration(start + ns));
}

/* At least that long; zero or less is yield(). May park. */
template <class Rep, class Period>
void sleep(std::chrono::duration<Rep, Period> d)
{
	detail::throw_if_error(sn_sleep(detail::to_ns(d)), "sn::sleep");
}

/* May park. */
inline void sleep_until(clock::time_point when)
{
	detail::throw_if_error(sn_sleep_until(detail::to_ns(when)), "sn::sleep_until");
}

/* Lets other runnable tasks go first. May park. */
inline void yield()
{
	detail::throw_if_error(sn_yield(), "sn::yield");
}

/* ---- tasks ------------------------------------------------------------------------------- */

/* How a task should differ from the default; as struct sn_task_attr. */
struct task_attr {
	const char *name = nullptr;
	std::size_t stack_size = 0;
	std::uint32_t flags = 0;
};

namespace detail
{

inline sn_task_attr to_c(const task_attr &attr)
{
	sn_task_attr c_attr{};
	c_attr.name = attr.name;
	c_attr.stack_size = attr.stack_size;
	c_attr.flags = attr.flags;
	return c_attr;
}

/* Starts a task; throws what sn_spawn() reports. */
inline void start(sn_task **handle, sn_fn *fn, void *arg, const task_attr &attr, const char *call)
{
	const sn_task_attr c_attr = to_c(attr);
	throw_if_error(sn_spawn(handle, fn, arg, &c_attr), call);
}

/* Those who derive from it are on the heap where a garbage collector sees them, if there is one. */
struct in_sight {
	static void *operator new(std::size_t size)
	{
		return operator new (size, std::align_val_t{alignof(std::max_align_t)});
	}
	static void *operator new(std::size_t size, std::align_val_t align)
	{
		void *memory = sn_collector_alloc(static_cast<std::size_t>(align), size);
		if (!memory)
			throw std::bad_alloc();
		return memory;
	}
	static void operator delete(void *memory) noexcept { sn_collector_free(memory); }
	static void operator delete(void *memory, std::align_val_t) noexcept
	{
		sn_collector_free(memory);
	}
};

/* A T of which a pointer is passed on. */
template <class T>
struct boxed final : in_sight {
	explicit boxed(T &&from) : value(std::move(from)) {}
	T value;
};

/* Whether a callable can be moved onto the stack of its task; otherwise it is put on the heap. */
template <class C>
inline constexpr bool travels = sizeof(C) <= SN_TASK_ARG_MAX &&
				alignof(C) <= 64 && std::is_nothrow_move_constructible_v<C>;

/*
 * Starts a task by spawn(fn, arg, attr) that calls body(callable) and then destroys the callable,
 * which was moved into it. Body: a type with a static int call(C &) noexcept. Returns what spawn
 * does.
 */
template <class Body, class C, class Spawn>
int start_with(C callable, const task_attr &attr, Spawn spawn)
{
	sn_task_attr c_attr = to_c(attr);
	if constexpr (travels<C>) {
		c_attr.arg_size = sizeof(C);
		c_attr.arg_move = [](void *to, void *from) {
			::new (to) C(std::move(*static_cast<C *>(from)));
		};
		return spawn(
			[](void *arg) noexcept {
				auto *own = static_cast<C *>(arg);
				const int result = Body::call(*own);
				own->~C();
				return result;
			},
			&callable, &c_attr);
	} else {
		auto box = std::make_unique<boxed<C>>(std::move(callable));
		const int err = spawn(
			[](void *arg) noexcept {
				std::unique_ptr<boxed<C>> own(static_cast<boxed<C> *>(arg));
				return Body::call(own->value);
			},
			box.get(), &c_attr);
		if (err >= 0)
			static_cast<void>(box.release()); /* the task's */
		return err;
	}
}

/* For a detached task. */
struct detached_body {
	template <class C>
	static int call(C &callable) noexcept
	{
		try {
			std::invoke(callable);
		} catch (...) {
			exception_left_task();
		}
		return 0;
	}
};

} // namespace detail

/* How a run should differ from the default; as struct sn_run_attr. */
struct run_attr {
	std::size_t stack_size = 0;
	std::size_t first_stack_size = 0;
};

/*
 * Starts the runtime, calls f as its first task, and returns f's int, or 0 when f returns nothing.
 * Rethrows what f throws; throws std::system_error when the runtime cannot be started, so that
 * f's own negative values are never confused with that.
 */
template <class F>
requires std::invocable<F &> &&
	(std::is_void_v<std::invoke_result_t<F &>> ||
	 std::convertible_to<std::invoke_result_t<F &>, int>)int run(F &&f,
								     const run_attr &attr = {})
{
	struct first {
		std::remove_reference_t<F> *f;
		bool started = false;
		detail::outcome<std::invoke_result_t<F &>> outcome;
	} task{&f, false, {}};

	sn_run_attr c_attr{};
	c_attr.stack_size = attr.stack_size;
	c_attr.first_stack_size = attr.first_stack_size;
	const int returned = sn_run_with(
		&c_attr,
		[](void *arg) {
			auto *self = static_cast<first *>(arg);
			self->started = true;
			self->outcome.take_from(*self->f);
			return 0;
		},
		&task);
	if (!task.started)
		detail::throw_if_error(returned, "sn::run");
	if constexpr (std::is_void_v<std::invoke_result_t<F &>>) {
		std::move(task.outcome).get();
		return 0;
	} else {
		return std::move(task.outcome).get();
	}
}

/*
 * Starts f, which may be move-only, as a detached task; f is destroyed in the task when it has
 * returned. Throws std::system_error (not_enough_memory) when there is no room for a stack; f is
 * destroyed before that.
 */
template <class F>
requires std::invocable < std::decay_t<F>
& > void go(F &&f, const task_attr &attr = {})
{
	const int err = detail::start_with<detail::detached_body, std::decay_t<F>>(
		std::forward<F>(f), attr, [](sn_fn *fn, void *arg, const sn_task_attr *c_attr) {
			return sn_spawn(nullptr, fn, arg, c_attr);
		});
	detail::throw_if_error(err, "sn::go");
}

/*
 * A task to be joined, and the T (or nothing) that it returns. Move-only. The handle must be
 * joined, or destroyed, in a task, before run() returns. Destroying a handle that was not joined
 * joins, so what the task borrows from its creator stays alive for it; value and exception are
 * thrown away then. Who does not want to wait uses go().
 */
template <class T>
class [[nodiscard]] task
{
public:
	task() = default;
	task(task &&other) noexcept
	    : handle_(std::exchange(other.handle_, nullptr)), state_(std::move(other.state_))
	{
	}
	task &operator=(task &&other) noexcept
	{
		if (this != &other) {
			finish();
			handle_ = std::exchange(other.handle_, nullptr);
			state_ = std::move(other.state_);
		}
		return *this;
	}
	~task() { finish(); }

	bool joinable() const noexcept { return state_ != nullptr; }

	/*
	 * Waits until the task has ended and returns its value, or rethrows the exception that left
	 * it. Throws std::system_error when there is nothing to join (invalid_argument), when a
	 * task joins itself, or when the calling task's scope is cancelled: then it can still be
	 * joined. May park.
	 */
	T join()
	{
		if (handle_ || !state_)
			detail::throw_if_error(handle_ ? sn_join(handle_, nullptr) : -EINVAL,
					       "sn::task::join");
		handle_ = nullptr;
		const auto ended = std::move(state_);
		return std::move(ended->outcome).get();
	}

	/*
	 * Waits for the end, at most until a time, without taking the value: true when the task has
	 * ended, false when the time has come first. join() then does not wait. May park.
	 */
	bool wait_until(deadline until)
	{
		if (!handle_)
			return state_ != nullptr;
		const int err = sn_join_until(handle_, nullptr, detail::to_ns(until));
		if (err == -ETIMEDOUT && until != no_deadline && until <= clock::now())
			return false;
		detail::throw_if_error(err, "sn::task::wait_until");
		handle_ = nullptr;
		return true;
	}
	template <class Rep, class Period>
	bool wait_for(std::chrono::duration<Rep, Period> d)
	{
		return wait_until(after(d));
	}

private:
	struct state : detail::in_sight {
		virtual ~state() = default;
		detail::outcome<T> outcome;
	};

	template <class F>
	struct state_with final : state {
		template <class G>
		explicit state_with(G &&g) : f(std::in_place, std::forward<G>(g))
		{
		}
		static int body(void *arg)
		{
			auto *self = static_cast<state_with *>(arg);
			self->outcome.take_from(*self->f);
			self->f.reset(); /* what it holds ends with the task, not with join() */
			return 0;
		}
		std::optional<F> f;
	};

	void finish() noexcept
	{
		if (handle_) {
			sn_cancel_mask();
			if (sn_join(std::exchange(handle_, nullptr), nullptr) < 0)
				std::terminate();
			sn_cancel_unmask();
		}
		state_.reset();
	}

	template <class F>
	requires std::invocable < std::decay_t<F>
	& > friend auto spawn(F &&f, const task_attr &attr)
			-> task<std::invoke_result_t<std::decay_t<F> &>>;

	sn_task *handle_ = nullptr;
	std::unique_ptr<state> state_; /* the task writes it until it has been joined */
};

/* Starts f as a task whose end and value can be waited for. Throws as go() does. */
template <class F>
requires std::invocable < std::decay_t<F>
& > auto spawn(F &&f, const task_attr &attr) -> task<std::invoke_result_t<std::decay_t<F> &>>
{
	using joinable = task<std::invoke_result_t<std::decay_t<F> &>>;
	using with_f = typename joinable::template state_with<std::decay_t<F>>;

	joinable started;
	auto state = std::make_unique<with_f>(std::forward<F>(f));
	detail::start(&started.handle_, &with_f::body, state.get(), attr, "sn::spawn");
	started.state_ = std::move(state);
	return started;
}

/* With default attributes. */
template <class F>
requires std::invocable < std::decay_t<F>
& > auto spawn(F &&f)
{
	return spawn(std::forward<F>(f), task_attr{});
}

/*
 * Calls f, which blocks its thread, while other tasks use the processor; returns what f returns and
 * throws what it throws. f must not call what may park.
 */
template <class F>
requires std::invocable<F &>
auto blocking(F &&f) -> std::invoke_result_t<F &>
{
	struct call {
		std::remove_reference_t<F> *f;
		detail::outcome<std::invoke_result_t<F &>> outcome;
	} call{&f, {}};

	static_cast<void>(sn_blocking(
		[](void *arg) {
			auto *self = static_cast<struct call *>(arg);
			self->outcome.take_from(*self->f);
			return 0;
		},
		&call));
	return std::move(call.outcome).get();
}

/* ---- scopes ------------------------------------------------------------------------------ */

/*
 * Structured concurrency, as scope.h: the tasks started in a scope have ended when join() returns,
 * or the destructor. The task that makes a scope works in it until then; scopes are left in the
 * reverse order of their making, as their destructors see to. Not to be moved: tasks know it by its
 * address.
 *
 *	sn::scope all(sn::after(5s));
 *	for (auto &job : jobs)
 *		all.go([&] { job.fetch(); });
 *	all.join().value();
 */
class scope
{
public:
	/* Throws std::system_error: the reason, when the scope around is cancelled; not_enough_memory. */
	explicit scope(deadline until = no_deadline)
	{
		detail::throw_if_error(sn_scope_open(&scope_, detail::to_ns(until)), "sn::scope");
	}
	scope(const scope &) = delete;
	scope &operator=(const scope &) = delete;

	/*
	 * Cancels and waits, when it was not joined: the way out of an exception. Scopes that go in
	 * another order, or in another task, end the program: their tasks would lose what they use.
	 */
	~scope()
	{
		if (!scope_ || !sn_self()) /* in a child of fork() */
			return;
		if (sn_scope_current() != scope_)
			std::terminate();
		cancel();
		sn_scope_close(scope_);
	}

	/*
	 * Starts f, which may be move-only, as a task of the scope. f returns nothing, a sn::result
	 * of whatever, or an int as C tasks do; an error or a negative int cancels the scope and is
	 * what join() returns, an exception cancels it and is what join() throws: of several, the
	 * first. Throws std::system_error with the reason when the scope is cancelled, and as
	 * sn::go() does. Any task or thread that knows the scope to be there.
	 */
	template <class F>
	requires std::invocable < std::decay_t<F>
	& > void go(F &&f, const task_attr &attr = {})
	{
		using body = scoped<std::decay_t<F>>;
		const int err = detail::start_with<call_scoped, body>(
			body{this, std::forward<F>(f)}, attr,
			[this](sn_fn *fn, void *arg, const sn_task_attr *c_attr) {
				return scope_ ? sn_scope_spawn(scope_, fn, arg, c_attr) : -EINVAL;
			});
		detail::throw_if_error(err, "sn::scope::go");
	}

	/* Any task or thread that knows the scope to be there. */
	void cancel() noexcept
	{
		if (scope_)
			sn_scope_cancel(scope_);
	}

	/*
	 * Waits for the tasks, and ends the scope; as sn_scope_close(). invalid_argument when it was
	 * joined before, or is not the one that the calling task has made last. May park.
	 */
	result<void> join()
	{
		if (!scope_ || sn_scope_current() != scope_)
			return failure{EINVAL};
		/* Until it has ended its tasks may cancel it. */
		const int err = sn_scope_close(scope_);
		scope_ = nullptr;
		if (err == thrown && exception_)
			std::rethrow_exception(std::exchange(exception_, nullptr));
		return detail::nothing_or_error(err);
	}

	/* For the calls of scope.h; NULL after join(). */
	sn_scope *get() const noexcept { return scope_; }

private:
	/* What a task that has thrown returns to C: no errno value. */
	static constexpr int thrown = INT32_MIN;

	template <class F>
	struct scoped {
		scope *self;
		F f;
	};

	struct call_scoped {
		template <class B>
		static int call(B &body) noexcept
		{
			try {
				using R = std::invoke_result_t<decltype(body.f) &>;
				if constexpr (std::is_void_v<R>) {
					std::invoke(body.f);
					return 0;
				} else if constexpr (std::is_convertible_v<R, int>) {
					return std::invoke(body.f);
				} else {
					return -std::invoke(body.f).error().value();
				}
			} catch (...) {
				body.self->keep(std::current_exception());
				return thrown;
			}
		}
	};

	/* The first one wins; it is read when all tasks have ended. */
	void keep(std::exception_ptr exception) noexcept
	{
		if (!kept_.test_and_set(std::memory_order_relaxed))
			exception_ = std::move(exception);
	}

	sn_scope *scope_ = nullptr;
	std::atomic_flag kept_ = ATOMIC_FLAG_INIT;
	std::exception_ptr exception_;
};

/* No error, or why the scope that the calling task works in is cancelled. */
inline std::error_code cancelled() noexcept
{
	return {-sn_cancelled(), std::generic_category()};
}

/* While there is one, the waits of the task that made it are not cancelled. */
class cancel_shield
{
public:
	cancel_shield() { detail::throw_if_error(sn_cancel_mask(), "sn::cancel_shield"); }
	cancel_shield(const cancel_shield &) = delete;
	cancel_shield &operator=(const cancel_shield &) = delete;
	~cancel_shield() { sn_cancel_unmask(); }
};

/*
 * A T that the tasks of a scope see without its being passed to them: one static variable for each
 * purpose.
 *
 *	static sn::scope_value<request_id> current_request;
 */
template <class T>
class scope_value
{
public:
	constexpr scope_value() = default;
	scope_value(const scope_value &) = delete;
	scope_value &operator=(const scope_value &) = delete;

	/* The value must outlive the scope. Only the task that made the scope. */
	void set(scope &in, T &value)
	{
		detail::throw_if_error(sn_scope_set_value(in.get(), this, std::addressof(value)),
				       "sn::scope_value::set");
	}
	/* That of the innermost scope that has one; nullptr when none has. */
	T *get() const noexcept { return static_cast<T *>(sn_scope_value(this)); }

private:
	char distinct_ = 0; /* constants could share an address otherwise */
};

/* ---- channels ---------------------------------------------------------------------------- */

namespace detail
{

/* Whether a T can be moved while the channel is locked, from where it is to where it goes. */
template <class T>
inline constexpr bool carried_in_place = std::is_trivially_copyable_v<T> ||
					 (std::is_nothrow_move_constructible_v<T> &&
					  alignof(T) <= alignof(std::max_align_t));

/* What a channel of T has for elements: T itself, or a pointer to one on the heap. */
template <class T>
using carried = std::conditional_t<carried_in_place<T>, T, boxed<T> *>;

template <class T>
inline constexpr sn_elem_ops ops_in_place = {
	[](void *to, void *from) noexcept { ::new (to) T(std::move(*static_cast<T *>(from))); },
	[](void *elem) noexcept { static_cast<T *>(elem)->~T(); },
};

/* The pointers are copied. */
template <class T>
inline constexpr sn_elem_ops ops_in_box = {
	nullptr,
	[](void *elem) noexcept { delete *static_cast<boxed<T> **>(elem); },
};

template <class T>
constexpr const sn_elem_ops *elem_ops()
{
	if constexpr (std::is_trivially_copyable_v<T>)
		return nullptr;
	else if constexpr (carried_in_place<T>)
		return &ops_in_place<T>;
	else
		return &ops_in_box<T>;
}

/* Raw memory for an element to be received. */
template <class T>
class inbox
{
public:
	void *memory() noexcept { return raw_; }

	/* Takes out what was received. */
	T take()
	{
		auto *elem = std::launder(reinterpret_cast<carried<T> *>(raw_));
		if constexpr (carried_in_place<T>) {
			struct destroying {
				T *elem;
				~destroying() { elem->~T(); }
			} after{elem};
			return std::move(*elem);
		} else {
			const std::unique_ptr<boxed<T>> box(*elem);
			return std::move(box->value);
		}
	}

private:
	alignas(carried<T>) unsigned char raw_[sizeof(carried<T>)];
};

/* An element to be sent, of which somebody else takes care. */
template <class T>
class outbox
{
public:
	explicit outbox(T &value)
	{
		if constexpr (carried_in_place<T>) {
			elem_ = std::addressof(value);
		} else {
			box_ = std::make_unique<boxed<T>>(std::move(value));
			elem_ = box_.get();
		}
	}
	void *memory() noexcept
	{
		if constexpr (carried_in_place<T>)
			return elem_;
		else
			return &elem_;
	}
	/* The channel has it. */
	void sent() noexcept { static_cast<void>(box_.release()); }

private:
	std::conditional_t<carried_in_place<T>, T, boxed<T>> *elem_;
	std::unique_ptr<boxed<T>> box_; /* what elem_ points to, where it is not carried in place */
};

template <class T, class F>
class recv_case;
template <class T, class F>
class send_case;

} // namespace detail

/*
 * A channel of T, as channel.h: the handle of one, which all copies of the handle share; the last
 * one frees it, and destroys the elements in it. The handle itself is not to be changed while
 * others use it, as with std::shared_ptr; calls through it may be made at the same time by any
 * task, or by plain threads, and also through a const one.
 *
 * T can be moved; it need not be copied or default constructed. Bytes are copied where that will
 * do, and a T whose move constructor is noexcept is moved from the sender's memory into the
 * receiver's, or into the buffer, without an allocation. It is then moved with the channel locked,
 * possibly by another task, so the constructor and the destructor may call nothing of sennit's. Any
 * other T travels on the heap.
 *
 * Errors, beside those of channel.h: a call on a handle without a channel fails with
 * std::errc::invalid_argument.
 *
 *	sn::channel<std::string> lines(16);
 *	all.go([lines] {
 *		for (std::string &line : lines)
 *			print(line);
 *	});
 *	lines.send("a line").value();
 *	lines.close();
 */
template <class T>
class channel
{
	static_assert(std::is_object_v<T> && std::is_same_v<T, std::remove_cv_t<T>>,
		      "a channel carries values");
	static_assert(std::is_move_constructible_v<T> && std::is_nothrow_destructible_v<T>);

public:
	using value_type = T;

	/* A new one, unbuffered or with a buffer. Throws std::system_error: not_enough_memory, or
	 * invalid_argument for what cannot be. */
	explicit channel(std::size_t capacity = 0)
	{
		detail::throw_if_error(sn_chan_new_with(&chan_, sizeof(detail::carried<T>),
							capacity > PTRDIFF_MAX
								? -1
								: static_cast<ssize_t>(capacity),
							detail::elem_ops<T>()),
				       "sn::channel");
	}

	/* None. In select() its cases are never ready. */
	template <std::same_as<std::nullptr_t> None> /* so that 0 is a capacity */
	channel(None) noexcept
	{
	}

	channel(const channel &other) noexcept : chan_(sn_chan_ref(other.chan_)) {}
	channel(channel &&other) noexcept : chan_(std::exchange(other.chan_, nullptr)) {}
	channel &operator=(channel other) noexcept
	{
		std::swap(chan_, other.chan_);
		return *this;
	}
	~channel() { sn_chan_free(chan_); }

	/*
	 * Sends the value. When that fails value is as it was; only a T that travels on the heap
	 * has been moved from, and is gone. May park.
	 */
	result<void> send(T &&value, deadline until = no_deadline) const
	{
		return send_by(value, detail::to_ns(until));
	}
	result<void> send(const T &value, deadline until = no_deadline) const
	{
		T copy(value);
		return send_by(copy, detail::to_ns(until));
	}

	/* std::errc::resource_unavailable_try_again when it would have to wait. */
	result<void> try_send(T &&value) const { return send_by(value, SN_TRY); }
	result<void> try_send(const T &value) const
	{
		T copy(value);
		return send_by(copy, SN_TRY);
	}

	/* std::errc::broken_pipe when it is closed and there is nothing left in it. May park. */
	result<T> recv(deadline until = no_deadline) const { return recv_by(detail::to_ns(until)); }
	result<T> try_recv() const { return recv_by(SN_TRY); }

	/* True when this call has closed it, false when it was closed, or is none. */
	bool close() const noexcept { return sn_chan_close(chan_) == 0; }

	/* How many elements lie in the buffer at this moment, and how many fit. */
	std::size_t size() const noexcept { return sn_chan_len(chan_); }
	std::size_t capacity() const noexcept { return sn_chan_cap(chan_); }

	explicit operator bool() const noexcept { return chan_ != nullptr; }
	friend bool operator==(const channel &, const channel &) = default;

	/* For calls of the C interface; it has T, or T * where a T travels on the heap. */
	sn_chan *get() const noexcept { return chan_; }

	/* For select(): f gets a result<T>, or nothing, when something has been received. */
	template <class F>
	auto on_recv(F f) const
	{
		return detail::recv_case<T, F>(chan_, std::move(f));
	}

	/* For select(): f gets a result<void>, or nothing, when the value has been sent. Otherwise
	 * the value is destroyed with the case. */
	template <class F>
	auto on_send(T value, F f) const
	{
		return detail::send_case<T, F>(chan_, std::move(value), std::move(f));
	}

	/*
	 * Goes through what is received until the channel is closed; what it points to may be moved
	 * from. Incrementing may park, and throws std::system_error when receiving fails otherwise:
	 * the scope was cancelled.
	 */
	class iterator
	{
	public:
		using iterator_concept = std::input_iterator_tag;
		using value_type = T;
		using difference_type = std::ptrdiff_t;

		explicit iterator(const channel *from) : from_(from) { ++*this; }

		T &operator*() const noexcept { return *elem_; }
		T *operator->() const noexcept { return std::addressof(*elem_); }
		iterator &operator++()
		{
			elem_.reset();
			result<T> received = from_->recv();
			if (received)
				elem_.emplace(*std::move(received));
			else if (received.error() != std::errc::broken_pipe)
				throw std::system_error(received.error());
			return *this;
		}
		void operator++(int) { ++*this; }
		friend bool operator==(const iterator &it, std::default_sentinel_t) noexcept
		{
			return !it.elem_;
		}

	private:
		const channel *from_;
		mutable std::optional<T> elem_;
	};
	/* May park. */
	iterator begin() const { return iterator(this); }
	std::default_sentinel_t end() const noexcept { return {}; }

private:
	result<void> send_by(T &value, std::int64_t until) const
	{
		detail::outbox<T> out(value);
		const int err = sn_chan_send_until(chan_, out.memory(), until);
		if (err == 0)
			out.sent();
		return detail::nothing_or_error(err);
	}

	result<T> recv_by(std::int64_t until) const
	{
		detail::inbox<T> in;
		const int err = sn_chan_recv_until(chan_, in.memory(), until);
		if (err < 0)
			return failure{-err};
		return in.take();
	}

	sn_chan *chan_ = nullptr;
};

namespace detail
{

struct select_case {
	static constexpr bool is_default = false;
	static constexpr bool is_deadline = false;
};

/* f with the result, or without, as it likes. */
template <class F, class Result>
void tell(F &f, Result &&result)
{
	if constexpr (std::is_invocable_v<F &, Result>)
		static_cast<void>(std::invoke(f, std::forward<Result>(result)));
	else
		static_cast<void>(std::invoke(f));
}

template <class T, class F>
class recv_case : public select_case
{
public:
	recv_case(sn_chan *chan, F f) : chan_(chan), f_(std::move(f)) {}
	sn_case prepare() noexcept { return {chan_, in_.memory(), SN_CASE_RECV, 0}; }
	void finish(int err)
	{
		if (err < 0)
			tell(f_, result<T>(failure{-err}));
		else
			tell(f_, result<T>(in_.take()));
	}

private:
	sn_chan *chan_;
	inbox<T> in_;
	F f_;
};

template <class T, class F>
class send_case : public select_case
{
public:
	send_case(sn_chan *chan, T value, F f)
	    : chan_(chan), value_(std::move(value)), out_(value_), f_(std::move(f))
	{
	}
	send_case(const send_case &) = delete; /* out_ points to value_ */
	send_case &operator=(const send_case &) = delete;
	sn_case prepare() noexcept { return {chan_, out_.memory(), SN_CASE_SEND, 0}; }
	void finish(int err)
	{
		if (err == 0)
			out_.sent();
		tell(f_, nothing_or_error(err));
	}

private:
	sn_chan *chan_;
	T value_;
	outbox<T> out_;
	F f_;
};

template <class F>
struct default_case : select_case {
	explicit default_case(F &&g) : f(std::move(g)) {}
	static constexpr bool is_default = true;
	sn_case prepare() noexcept { return {nullptr, nullptr, SN_CASE_RECV, 0}; }
	void finish(int) { static_cast<void>(std::invoke(f)); }
	F f;
};

template <class F>
struct deadline_case : select_case {
	deadline_case(deadline d, F &&g) : until(d), f(std::move(g)) {}
	static constexpr bool is_deadline = true;
	sn_case prepare() noexcept { return {nullptr, nullptr, SN_CASE_RECV, 0}; }
	void finish(int) { static_cast<void>(std::invoke(f)); }
	deadline until;
	F f;
};

} // namespace detail

/* For select(): f is called when nothing else is ready, and there is no waiting. */
template <class F>
auto otherwise(F f)
{
	return detail::default_case<F>(std::move(f));
}

/* For select(): f is called when nothing else has been until then. */
template <class F>
auto on_deadline(deadline until, F f)
{
	return detail::deadline_case<F>(until, std::move(f));
}

/*
 * Does one of the cases, as sn_select(), and calls its function:
 *
 *	sn::select(
 *		jobs.on_recv([&](sn::result<job> next) { ... }),
 *		answers.on_send(answer, [&] { ... }),
 *		sn::on_deadline(sn::after(1s), [&] { ... }));
 *
 * The function of a channel's case gets a result, which fails with std::errc::broken_pipe when the
 * channel is closed, unless it takes no argument. At most one otherwise() and one on_deadline().
 * Returns the index of the case that was done; or an error, when there was none: the scope's
 * reason, or not_enough_memory. What a function throws comes through. May park.
 */
template <class... Cases>
result<std::size_t> select(Cases &&...cases)
{
	constexpr std::size_t n = sizeof...(Cases);
	static_assert(
		(std::is_base_of_v<detail::select_case, std::remove_reference_t<Cases>> && ...),
		"the cases are on_recv(), on_send(), otherwise() and on_deadline()");
	static_assert((0 + ... + std::remove_reference_t<Cases>::is_default) <= 1);
	static_assert((0 + ... + std::remove_reference_t<Cases>::is_deadline) <= 1);

	/* One more, for a select without cases. Those that have no channel are never ready. */
	sn_case each[n + 1] = {cases.prepare()..., {}};
	std::int64_t until = SN_NO_DEADLINE;
	const auto look = [&](auto &one) {
		using type = std::remove_reference_t<decltype(one)>;
		if constexpr (type::is_default)
			until = SN_TRY;
		else if constexpr (type::is_deadline)
			until = until == SN_TRY ? until : detail::to_ns(one.until);
	};
	(look(cases), ...);

	const int chosen = sn_select(each, n, until);
	std::size_t i = 0, done = n;
	const auto finish = [&](auto &one) {
		using type = std::remove_reference_t<decltype(one)>;
		bool mine = chosen == static_cast<int>(i);
		if constexpr (type::is_default)
			mine = chosen == -EAGAIN;
		else if constexpr (type::is_deadline)
			/* Not the scope's, which may come first. */
			mine = chosen == -ETIMEDOUT && one.until <= clock::now();
		if (mine) {
			done = i;
			one.finish(each[i].result);
		}
		i++;
	};
	(finish(cases), ...);
	if (done == n)
		return failure{-chosen};
	return done;
}

/* ---- locks ------------------------------------------------------------------------------- */

/*
 * For tasks and for the program's own threads, in any mixture. They satisfy what the standard asks
 * of its own (Lockable, TimedLockable, SharedTimedLockable), so std::unique_lock, std::scoped_lock
 * and std::shared_lock take them. Calls that would have to wait in a scope that is cancelled throw
 * std::system_error with the scope's reason (operation_canceled, timed_out); those that have a
 * deadline or only try say false when that is why they failed.
 */
namespace detail
{

/* A point in time of any clock as a deadline; of another clock than sn::clock by its present. */
template <class Clock, class Duration>
std::int64_t until_ns(const std::chrono::time_point<Clock, Duration> &when)
{
	if constexpr (std::is_same_v<Clock, clock>) {
		const std::int64_t ns = to_ns(when.time_since_epoch());
		return ns == INT64_MAX ? INT64_MAX - 1 : ns;
	} else {
		return sn_after(to_ns(when - Clock::now()));
	}
}

template <class Rep, class Period>
std::int64_t after_ns(std::chrono::duration<Rep, Period> d)
{
	return sn_after(to_ns(d));
}

/* True for success; false for the error that the call is allowed to fail with. */
inline bool done_or(int allowed, int returned, const char *call)
{
	if (returned == -allowed)
		return false;
	throw_if_error(returned, call);
	return true;
}

} // namespace detail

/*
 * As sn_mutex. Cancellation does not end lock(), so that a std::lock_guard may stand in a destructor, and in
 * any clean-up of a cancelled scope. Who would rather not wait any more then, calls lock_or_reason().
 */
class mutex
{
public:
	constexpr mutex() noexcept = default;
	mutex(const mutex &) = delete;
	mutex &operator=(const mutex &) = delete;

	/* May park. Throws only in the callback of a scan (scan.h), where waiting is not possible. */
	void lock()
	{
		detail::throw_if_error(sn_mutex_lock_uncancelled(&mutex_), "sn::mutex::lock");
	}
	/* Locks it, or says why not: the reason for which the calling task's scope is cancelled. May park. */
	[[nodiscard]] result<void> lock_or_reason() noexcept
	{
		return detail::nothing_or_error(sn_mutex_lock(&mutex_));
	}
	bool try_lock() noexcept { return sn_mutex_trylock(&mutex_) == 0; }
	void unlock() noexcept { sn_mutex_unlock(&mutex_); }

	/* May park. */
	template <class Rep, class Period>
	bool try_lock_for(const std::chrono::duration<Rep, Period> &d)
	{
		return try_until(detail::after_ns(d));
	}
	template <class Clock, class Duration>
	bool try_lock_until(const std::chrono::time_point<Clock, Duration> &when)
	{
		return try_until(detail::until_ns(when));
	}

	sn_mutex *get() noexcept { return &mutex_; }

private:
	bool try_until(std::int64_t when)
	{
		return detail::done_or(ETIMEDOUT, sn_mutex_lock_until(&mutex_, when),
				       "sn::mutex::try_lock_until");
	}

	sn_mutex mutex_ = SN_MUTEX_INIT;
};

/* As sn_rwlock; lock() and lock_shared() are not cancelled, as mutex::lock(). */
class shared_mutex
{
public:
	constexpr shared_mutex() noexcept = default;
	shared_mutex(const shared_mutex &) = delete;
	shared_mutex &operator=(const shared_mutex &) = delete;

	/* For writing. May park, but for try_lock(). */
	void lock()
	{
		detail::throw_if_error(sn_rwlock_write_uncancelled(&lock_),
				       "sn::shared_mutex::lock");
	}
	bool try_lock() noexcept { return sn_rwlock_try_write(&lock_) == 0; }
	void unlock() noexcept { sn_rwlock_write_unlock(&lock_); }
	template <class Rep, class Period>
	bool try_lock_for(const std::chrono::duration<Rep, Period> &d)
	{
		return try_until(detail::after_ns(d));
	}
	template <class Clock, class Duration>
	bool try_lock_until(const std::chrono::time_point<Clock, Duration> &when)
	{
		return try_until(detail::until_ns(when));
	}

	/* For reading. May park, but for try_lock_shared(). */
	void lock_shared()
	{
		detail::throw_if_error(sn_rwlock_read_uncancelled(&lock_),
				       "sn::shared_mutex::lock_shared");
	}
	/* As mutex::lock_or_reason(). May park. */
	[[nodiscard]] result<void> lock_or_reason() noexcept
	{
		return detail::nothing_or_error(sn_rwlock_write(&lock_));
	}
	[[nodiscard]] result<void> lock_shared_or_reason() noexcept
	{
		return detail::nothing_or_error(sn_rwlock_read(&lock_));
	}
	bool try_lock_shared() noexcept { return sn_rwlock_try_read(&lock_) == 0; }
	void unlock_shared() noexcept { sn_rwlock_read_unlock(&lock_); }
	template <class Rep, class Period>
	bool try_lock_shared_for(const std::chrono::duration<Rep, Period> &d)
	{
		return try_shared_until(detail::after_ns(d));
	}
	template <class Clock, class Duration>
	bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration> &when)
	{
		return try_shared_until(detail::until_ns(when));
	}

private:
	bool try_until(std::int64_t when)
	{
		return detail::done_or(ETIMEDOUT, sn_rwlock_write_until(&lock_, when),
				       "sn::shared_mutex::try_lock_until");
	}
	bool try_shared_until(std::int64_t when)
	{
		return detail::done_or(ETIMEDOUT, sn_rwlock_read_until(&lock_, when),
				       "sn::shared_mutex::try_lock_shared_until");
	}

	sn_rwlock lock_ = SN_RWLOCK_INIT;
};

/*
 * As sn_cond, with std::unique_lock<sn::mutex>. Also when it throws, the lock is held. May park, but
 * for notifying.
 */
class condition_variable
{
public:
	constexpr condition_variable() noexcept = default;
	condition_variable(const condition_variable &) = delete;
	condition_variable &operator=(const condition_variable &) = delete;

	void notify_one() noexcept { sn_cond_signal(&cond_); }
	void notify_all() noexcept { sn_cond_broadcast(&cond_); }

	void wait(std::unique_lock<mutex> &lock)
	{
		detail::throw_if_error(sn_cond_wait(&cond_, lock.mutex()->get()),
				       "sn::condition_variable::wait");
	}
	template <class Predicate>
	void wait(std::unique_lock<mutex> &lock, Predicate holds)
	{
		while (!holds())
			wait(lock);
	}

	template <class Clock, class Duration>
	std::cv_status wait_until(std::unique_lock<mutex> &lock,
				  const std::chrono::time_point<Clock, Duration> &when)
	{
		return until(lock, detail::until_ns(when));
	}
	template <class Clock, class Duration, class Predicate>
	bool wait_until(std::unique_lock<mutex> &lock,
			const std::chrono::time_point<Clock, Duration> &when, Predicate holds)
	{
		return until(lock, detail::until_ns(when), holds);
	}
	template <class Rep, class Period>
	std::cv_status wait_for(std::unique_lock<mutex> &lock,
				const std::chrono::duration<Rep, Period> &d)
	{
		return until(lock, detail::after_ns(d));
	}
	template <class Rep, class Period, class Predicate>
	bool wait_for(std::unique_lock<mutex> &lock, const std::chrono::duration<Rep, Period> &d,
		      Predicate holds)
	{
		return until(lock, detail::after_ns(d), holds);
	}

private:
	std::cv_status until(std::unique_lock<mutex> &lock, std::int64_t when)
	{
		return detail::done_or(ETIMEDOUT,
				       sn_cond_wait_until(&cond_, lock.mutex()->get(), when),
				       "sn::condition_variable::wait_until")
			       ? std::cv_status::no_timeout
			       : std::cv_status::timeout;
	}
	template <class Predicate>
	bool until(std::unique_lock<mutex> &lock, std::int64_t when, Predicate &holds)
	{
		while (!holds())
			if (until(lock, when) == std::cv_status::timeout)
				return holds();
		return true;
	}

	sn_cond cond_ = SN_COND_INIT;
};

/* As sn_semaphore; the calls of std::counting_semaphore. */
class semaphore
{
public:
	explicit constexpr semaphore(int permits = 0) noexcept
	    : semaphore_ SN_SEMAPHORE_INIT(permits)
	{
	}
	semaphore(const semaphore &) = delete;
	semaphore &operator=(const semaphore &) = delete;

	/* Throws std::system_error when there would be too many, or n is below 1. */
	void release(int n = 1)
	{
		detail::throw_if_error(sn_semaphore_release(&semaphore_, n),
				       "sn::semaphore::release");
	}

	/* May park, but for try_acquire(). */
	void acquire()
	{
		detail::throw_if_error(sn_semaphore_acquire(&semaphore_), "sn::semaphore::acquire");
	}
	bool try_acquire() noexcept { return sn_semaphore_try_acquire(&semaphore_) == 0; }
	template <class Rep, class Period>
	bool try_acquire_for(const std::chrono::duration<Rep, Period> &d)
	{
		return try_until(detail::after_ns(d));
	}
	template <class Clock, class Duration>
	bool try_acquire_until(const std::chrono::time_point<Clock, Duration> &when)
	{
		return try_until(detail::until_ns(when));
	}

private:
	bool try_until(std::int64_t when)
	{
		return detail::done_or(ETIMEDOUT, sn_semaphore_acquire_until(&semaphore_, when),
				       "sn::semaphore::try_acquire_until");
	}

	sn_semaphore semaphore_;
};

/* As sn_once_flag. */
class once_flag
{
public:
	constexpr once_flag() noexcept = default;
	once_flag(const once_flag &) = delete;
	once_flag &operator=(const once_flag &) = delete;

private:
	template <class F, class... Args>
	friend void call_once(once_flag &flag, F &&f, Args &&...args);

	sn_once_flag flag_ = SN_ONCE_INIT;
};

/*
 * Calls f(args...) unless a call with the flag has returned; waits while one is being made. When f
 * throws, that goes to the caller, and the next one makes his call. f may park.
 */
template <class F, class... Args>
void call_once(once_flag &flag, F &&f, Args &&...args)
{
	std::exception_ptr thrown;
	auto call = [&]() noexcept {
		try {
			std::invoke(std::forward<F>(f), std::forward<Args>(args)...);
		} catch (...) {
			thrown = std::current_exception();
		}
		return thrown ? -1 : 0;
	};
	const int err = sn_once(
		&flag.flag_, [](void *arg) { return (*static_cast<decltype(call) *>(arg))(); },
		&call);
	if (thrown)
		std::rethrow_exception(std::move(thrown));
	detail::throw_if_error(err, "sn::call_once");
}

/* As sn_waitgroup. */
class wait_group
{
public:
	constexpr wait_group() noexcept = default;
	wait_group(const wait_group &) = delete;
	wait_group &operator=(const wait_group &) = delete;

	/* Throw std::system_error when the count would be negative, or too large. */
	void add(int n = 1)
	{
		detail::throw_if_error(sn_waitgroup_add(&group_, n), "sn::wait_group::add");
	}
	void done() { detail::throw_if_error(sn_waitgroup_done(&group_), "sn::wait_group::done"); }

	/* May park, but for try_wait(). */
	void wait() { detail::throw_if_error(sn_waitgroup_wait(&group_), "sn::wait_group::wait"); }
	bool try_wait() noexcept { return sn_waitgroup_try_wait(&group_) == 0; }
	template <class Rep, class Period>
	bool wait_for(const std::chrono::duration<Rep, Period> &d)
	{
		return until(detail::after_ns(d));
	}
	template <class Clock, class Duration>
	bool wait_until(const std::chrono::time_point<Clock, Duration> &when)
	{
		return until(detail::until_ns(when));
	}

private:
	bool until(std::int64_t when)
	{
		return detail::done_or(ETIMEDOUT, sn_waitgroup_wait_until(&group_, when),
				       "sn::wait_group::wait_until");
	}

	sn_waitgroup group_ = SN_WAITGROUP_INIT;
};

/* As sn_barrier. */
class barrier
{
public:
	explicit constexpr barrier(unsigned parties) noexcept : barrier_ SN_BARRIER_INIT(parties) {}
	barrier(const barrier &) = delete;
	barrier &operator=(const barrier &) = delete;

	/* True for one of each round. May park. */
	bool arrive_and_wait()
	{
		const int result = sn_barrier_wait(&barrier_);
		detail::throw_if_error(result, "sn::barrier::arrive_and_wait");
		return result == SN_BARRIER_SERIAL;
	}

private:
	sn_barrier barrier_;
};

/* ---- timers ------------------------------------------------------------------------------ */

/*
 * Runs a callable as a new task at a time, as sn_alarm; once. What is to be done periodically is done
 * by a task with a ticker. When it is destroyed it is stopped, and a task that has begun is waited
 * for, so it may refer to what lives longer than the alarm; it must not destroy the alarm itself. An
 * exception that leaves it ends the program, as with go().
 */
class alarm
{
public:
	template <class F>
	requires std::invocable < std::decay_t<F>
	& > explicit alarm(F &&f) : f_(std::forward<F>(f)) {}
	alarm(const alarm &) = delete;
	alarm &operator=(const alarm &) = delete;

	/* May park. */
	~alarm()
	{
		stop();
		/* Not to be given up, whatever the scope says. */
		const bool masked = sn_cancel_mask() == 0;
		if (sn_waitgroup_wait(&running_) < 0)
			std::terminate();
		if (masked)
			sn_cancel_unmask();
	}

	/* Sets it, anew if it was set. True when a former time was thereby prevented. */
	template <class Rep, class Period>
	bool set_after(const std::chrono::duration<Rep, Period> &d)
	{
		return set(detail::after_ns(d));
	}
	template <class Clock, class Duration>
	bool set_at(const std::chrono::time_point<Clock, Duration> &when)
	{
		return set(detail::until_ns(when));
	}

	/* True when the callable is thereby not called; as sn_alarm_stop(). */
	bool stop() noexcept
	{
		const bool prevented = sn_alarm_stop(&alarm_) == 1;
		if (prevented)
			sn_waitgroup_done(&running_);
		return prevented;
	}

private:
	bool set(std::int64_t when)
	{
		/* Not by starting: a start that fails does not tell whether it has prevented one. */
		const bool prevented = stop();
		sn_waitgroup_add(&running_, 1);
		const int result = sn_alarm_start(
			&alarm_, when > 0 ? when : 1, 0,
			[](void *arg) {
				auto *self = static_cast<alarm *>(arg);
				try {
					self->f_();
				} catch (...) {
					detail::exception_left_task();
				}
				sn_waitgroup_done(&self->running_);
				return 0;
			},
			this);
		if (result != 0)
			sn_waitgroup_done(&running_); /* another's, or this one that was refused */
		detail::throw_if_error(result, "sn::alarm::set");
		return prevented || result == 1;
	}

	sn_alarm alarm_ = SN_ALARM_INIT;
	sn_waitgroup running_ = SN_WAITGROUP_INIT;
	std::function<void()> f_;
};

/* The other name that it is looked for by. */
using timer = alarm;

/* As sn_ticker; stops when destroyed, by when nobody may wait any more. */
class ticker
{
public:
	ticker() noexcept = default;

	/* Ticks each period from now on. */
	template <class Rep, class Period>
	explicit ticker(const std::chrono::duration<Rep, Period> &period)
	{
		start(period, period);
	}
	ticker(const ticker &) = delete;
	ticker &operator=(const ticker &) = delete;
	~ticker() { sn_ticker_stop(&ticker_); }

	/* First after one duration, then after each of the other, if that is not zero. */
	template <class Rep, class Period, class Rep2 = std::int64_t, class Period2 = std::nano>
	bool start(const std::chrono::duration<Rep, Period> &first,
		   const std::chrono::duration<Rep2, Period2> &period = {})
	{
		const int result =
			sn_ticker_start(&ticker_, detail::after_ns(first), detail::to_ns(period));
		detail::throw_if_error(result, "sn::ticker::start");
		return result == 1;
	}
	bool stop() noexcept { return sn_ticker_stop(&ticker_) == 1; }

	/* The number of ticks since the last wait; when none is there, 0 past the deadline. May park. */
	std::int64_t wait(deadline until = no_deadline)
	{
		const std::int64_t n = sn_ticker_wait_until(&ticker_, detail::to_ns(until));
		if (n == -ETIMEDOUT && until != no_deadline && now() >= until)
			return 0;
		detail::throw_if_error(n < 0 ? static_cast<int>(n) : 0, "sn::ticker::wait");
		return n;
	}

private:
	sn_ticker ticker_ = SN_TICKER_INIT;
};

/* ---- signals ----------------------------------------------------------------------------- */

/* As sn_signal_catch(). */
inline result<void> catch_signal(int signum)
{
	return detail::nothing_or_error(sn_signal_catch(signum));
}

/* The number of a caught signal, once there is one; as sn_signal_wait(). May park. */
inline result<int> wait_signal(deadline until = no_deadline)
{
	const int signum = sn_signal_wait(detail::to_ns(until));
	if (signum < 0)
		return failure{-signum};
	return signum;
}

/* ---- TCP --------------------------------------------------------------------------------- */

namespace detail
{

template <class Get>
result<std::string> address_text(Get get)
{
	char text[SN_ADDRESS_MAX];
	const int length = get(text, sizeof text);
	if (length < 0)
		return failure{-length};
	return std::string(text, static_cast<std::size_t>(length));
}

struct tcp_closer {
	void operator()(sn_tcp *conn) const noexcept { sn_tcp_close(conn); }
};

struct listener_closer {
	void operator()(sn_tcp_listener *listener) const noexcept
	{
		sn_tcp_listener_close(listener);
	}
};

} // namespace detail

/*
 * A connection; closes it in good order when destroyed. Movable. Any number of tasks may use one
 * object at a time under the rules of tcp.h, except that moving, closing, aborting and destroying
 * it must be the last use. Calls on an empty object (default constructed, moved from, closed) are
 * mistakes, save operator bool, close() and abort().
 */
class tcp
{
public:
	tcp() = default;

	/* Takes over a connection of the C interface. */
	explicit tcp(sn_tcp *owned) noexcept : conn_(owned) {}

	/* May park. */
	static result<tcp> connect(const std::string &address, deadline until = no_deadline)
	{
		sn_tcp *conn = nullptr;
		const int err = sn_tcp_connect(&conn, address.c_str(), detail::to_ns(until));
		if (err < 0)
			return failure{-err};
		return tcp(conn);
	}

	/* At least one byte; 0 is the end of the stream. May park. */
	result<std::size_t> read(void *buf, std::size_t size)
	{
		return detail::size_or_error(sn_tcp_read(conn_.get(), buf, size));
	}

	/* Some of the bytes, at least one. May park. */
	result<std::size_t> write(const void *buf, std::size_t size)
	{
		return detail::size_or_error(sn_tcp_write(conn_.get(), buf, size));
	}

	/* All of the bytes. May park. */
	result<void> write_all(const void *buf, std::size_t size)
	{
		return detail::nothing_or_error(sn_tcp_write_all(conn_.get(), buf, size));
	}
	result<void> write_all(std::string_view text)
	{
		return write_all(text.data(), text.size());
	}

	/* Sends the end of the stream; reading goes on. */
	result<void> shutdown_write()
	{
		return detail::nothing_or_error(sn_tcp_shutdown(conn_.get(), SN_SHUT_WRITE));
	}

	/* Reads return 0 from now on; writing goes on. */
	result<void> shutdown_read()
	{
		return detail::nothing_or_error(sn_tcp_shutdown(conn_.get(), SN_SHUT_READ));
	}

	/* Until both halves have ended in good order, or the connection was reset. May park. */
	result<void> wait_closed()
	{
		return detail::nothing_or_error(sn_tcp_wait_closed(conn_.get()));
	}

	/* In good order. */
	void close() noexcept { conn_.reset(); }

	/* With a reset. */
	void abort() noexcept
	{
		if (conn_)
			sn_tcp_abort(conn_.release());
	}

	/* Makes every call fail with std::errc::operation_canceled, from now on. Any task. */
	void cancel() noexcept { sn_tcp_cancel(conn_.get()); }

	void set_read_deadline(deadline until) noexcept
	{
		sn_tcp_set_read_deadline(conn_.get(), detail::to_ns(until));
	}
	void set_write_deadline(deadline until) noexcept
	{
		sn_tcp_set_write_deadline(conn_.get(), detail::to_ns(until));
	}

	result<std::string> local_address() const
	{
		return detail::address_text([this](char *text, std::size_t size) {
			return sn_tcp_local_address(conn_.get(), text, size);
		});
	}
	result<std::string> peer_address() const
	{
		return detail::address_text([this](char *text, std::size_t size) {
			return sn_tcp_peer_address(conn_.get(), text, size);
		});
	}

	explicit operator bool() const noexcept { return conn_ != nullptr; }

	/* The connection for calls of the C interface; stays this object's. */
	sn_tcp *get() const noexcept { return conn_.get(); }

private:
	std::unique_ptr<sn_tcp, detail::tcp_closer> conn_;
};

/* A listening socket; closes when destroyed. Movable. */
class tcp_listener
{
public:
	tcp_listener() = default;

	/* Takes over a listener of the C interface. */
	explicit tcp_listener(sn_tcp_listener *owned) noexcept : listener_(owned) {}

	/* May park. */
	static result<tcp_listener> listen(const std::string &address)
	{
		sn_tcp_listener *listener = nullptr;
		const int err = sn_tcp_listen(&listener, address.c_str());
		if (err < 0)
			return failure{-err};
		return tcp_listener(listener);
	}

	/* Takes over a descriptor that listens already, if it can be had. */
	static result<tcp_listener> adopt(int fd)
	{
		sn_tcp_listener *listener = nullptr;
		const int err = sn_tcp_listener_adopt(fd, &listener);
		if (err < 0)
			return failure{-err};
		return tcp_listener(listener);
	}

	/* May park. */
	result<tcp> accept()
	{
		sn_tcp *conn = nullptr;
		const int err = sn_tcp_accept(listener_.get(), &conn);
		if (err < 0)
			return failure{-err};
		return tcp(conn);
	}

	void set_deadline(deadline until) noexcept
	{
		sn_tcp_listener_set_deadline(listener_.get(), detail::to_ns(until));
	}

	/* What it is bound to, the port that the system chose included. */
	result<std::string> address() const
	{
		return detail::address_text([this](char *text, std::size_t size) {
			return sn_tcp_listener_address(listener_.get(), text, size);
		});
	}

	void close() noexcept { listener_.reset(); }
	explicit operator bool() const noexcept { return listener_ != nullptr; }
	sn_tcp_listener *get() const noexcept { return listener_.get(); }

private:
	std::unique_ptr<sn_tcp_listener, detail::listener_closer> listener_;
};

/* ---- streams ----------------------------------------------------------------------------- */

namespace detail
{

struct stream_closer {
	void operator()(sn_stream *stream) const noexcept { sn_stream_close(stream); }
};

} // namespace detail

/* Any descriptor that carries bytes: sn_stream. Closed by the destructor. */
class stream
{
public:
	stream() = default;

	/* Takes over a stream of the C interface. */
	explicit stream(sn_stream *owned) noexcept : stream_(owned) {}

	/* Takes over a descriptor; on failure it stays the caller's. */
	static result<stream> adopt(int fd)
	{
		sn_stream *adopted = nullptr;
		const int err = sn_stream_adopt(&adopted, fd);
		if (err < 0)
			return failure{-err};
		return stream(adopted);
	}

	/* At least one byte; 0 is the end of the stream. May park. */
	result<std::size_t> read(void *buf, std::size_t size)
	{
		return detail::size_or_error(sn_stream_read(stream_.get(), buf, size));
	}

	/* Some of the bytes, at least one. May park. */
	result<std::size_t> write(const void *buf, std::size_t size)
	{
		return detail::size_or_error(sn_stream_write(stream_.get(), buf, size));
	}

	/* All of the bytes. May park. */
	result<void> write_all(std::string_view bytes)
	{
		return detail::nothing_or_error(
			sn_stream_write_all(stream_.get(), bytes.data(), bytes.size()));
	}

	result<void> shutdown_write()
	{
		return detail::nothing_or_error(sn_stream_shutdown(stream_.get(), SN_SHUT_WRITE));
	}

	void set_read_deadline(deadline until) noexcept
	{
		sn_stream_set_read_deadline(stream_.get(), detail::to_ns(until));
	}

	void set_write_deadline(deadline until) noexcept
	{
		sn_stream_set_write_deadline(stream_.get(), detail::to_ns(until));
	}

	void cancel() noexcept { sn_stream_cancel(stream_.get()); }
	void close() noexcept { stream_.reset(); }

	sn_stream *get() const noexcept { return stream_.get(); }
	explicit operator bool() const noexcept { return stream_ != nullptr; }

private:
	std::unique_ptr<sn_stream, detail::stream_closer> stream_;
};

namespace detail
{

inline sn_stream *as_stream(const stream &each) noexcept
{
	return each.get();
}

inline sn_stream *as_stream(const tcp &each) noexcept
{
	return sn_tcp_stream(each.get());
}

} // namespace detail

/* A stream or a connection. */
template <class T>
concept byte_stream = requires(const T &each)
{
	detail::as_stream(each);
};

/* ---- copying ----------------------------------------------------------------------------- */

/* What copy() did; struct sn_copy_result, with the error that ended it, if one did. */
struct copied : sn_copy_result {
	std::error_code error;

	/* Whether the end of the stream was reached. */
	explicit operator bool() const noexcept { return !error; }
};

/*
 * Copies from src to dst until the end of the stream. progress(std::size_t) is called after each
 * chunk that was delivered; it must not park and must not throw. May park.
 */
template <byte_stream Dst, byte_stream Src, class Progress>
requires std::invocable<Progress &, std::size_t> copied copy(Dst &dst, Src &src,
							     Progress &&progress)
{
	copied done{};
	const int err = sn_copy(
		detail::as_stream(dst), detail::as_stream(src), -1,
		[](void *arg, std::size_t bytes) noexcept {
			(*static_cast<std::remove_reference_t<Progress> *>(arg))(bytes);
		},
		const_cast<void *>(static_cast<const void *>(std::addressof(progress))), &done);

	done.error = std::error_code(err < 0 ? -err : 0, std::generic_category());
	return done;
}

/* Without being told of progress. */
template <byte_stream Dst, byte_stream Src>
copied copy(Dst &dst, Src &src)
{
	copied done{};
	const int err = sn_copy(detail::as_stream(dst), detail::as_stream(src), -1, nullptr,
				nullptr, &done);

	done.error = std::error_code(err < 0 ? -err : 0, std::generic_category());
	return done;
}

/* Limits of relay(); zero is none. */
struct relay_limits {
	std::chrono::nanoseconds idle{0};
	std::chrono::nanoseconds half_close{0};
	const sn_relay_pace *pace = nullptr;     /* how fast: struct sn_relay_pace */
	const sn_relay_tuning *tuning = nullptr; /* unstable.h */
};

/* What relay() did; struct sn_relay_result, whose `error` is here an error code. */
struct relayed {
	sn_copy_result a_to_b{}, b_to_a{};
	sn_relay_end end = SN_RELAY_FINISHED;
	bool lost_bytes = false;
	int side = -1; /* whose doing it was: 0 a, 1 b, -1 neither */
	std::error_code error;

	/* Whether both streams ended in good order. */
	explicit operator bool() const noexcept { return !error; }
};

/*
 * Passes bytes on in both directions: sn_relay(). progress(sn_relay_direction, std::size_t) is
 * called after each chunk that was delivered, from either of two tasks; it must not park and must
 * not throw. May park.
 */
template <byte_stream A, byte_stream B, class Progress>
requires std::invocable<Progress &, sn_relay_direction, std::size_t>
	relayed relay(A &a, B &b, const relay_limits &limits, Progress &&progress)
{
	sn_relay_options options{};
	sn_relay_result c_result{};
	relayed done;

	options.idle_timeout = limits.idle.count();
	options.half_close_timeout = limits.half_close.count();
	options.pace = limits.pace;
	options.tuning = limits.tuning;
	options.progress = [](void *arg, sn_relay_direction way, std::size_t bytes) noexcept {
		(*static_cast<std::remove_reference_t<Progress> *>(arg))(way, bytes);
	};
	options.arg = const_cast<void *>(static_cast<const void *>(std::addressof(progress)));
	const int err = sn_relay(detail::as_stream(a), detail::as_stream(b), &options, &c_result);
	done.a_to_b = c_result.directions[SN_RELAY_A_TO_B];
	done.b_to_a = c_result.directions[SN_RELAY_B_TO_A];
	done.end = c_result.end;
	done.lost_bytes = c_result.lost != 0;
	done.side = c_result.side;
	done.error = std::error_code(err < 0 ? -err : 0, std::generic_category());
	return done;
}

/* Without being told of progress. */
template <byte_stream A, byte_stream B>
relayed relay(A &a, B &b, const relay_limits &limits = {})
{
	return relay(a, b, limits, [](sn_relay_direction, std::size_t) noexcept {});
}

} // namespace sennit

namespace sn = sennit; // NOLINT: the short name is part of the interface

#endif
