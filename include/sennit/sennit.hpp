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
 */
#ifndef SENNIT_SENNIT_HPP
#define SENNIT_SENNIT_HPP

#include <sennit/sennit.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
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

/* The monotonic clock of sn_now(), which deadlines are points on. */
struct clock {
	using duration = std::chrono::nanoseconds;
	using rep = duration::rep;
	using period = duration::period;
	using time_point = std::chrono::time_point<clock>;
	static constexpr bool is_steady = true;

	static time_point now() noexcept { return time_point(duration(sn_now())); }
};

using deadline = clock::time_point;

inline constexpr deadline no_deadline{clock::duration(SN_NO_DEADLINE)};

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
};

namespace detail
{

inline sn_task_attr to_c(const task_attr &attr)
{
	sn_task_attr c_attr{};
	c_attr.name = attr.name;
	c_attr.stack_size = attr.stack_size;
	return c_attr;
}

/* Starts a task; throws what sn_spawn() reports. */
inline void start(sn_task **handle, sn_fn *fn, void *arg, const task_attr &attr, const char *call)
{
	const sn_task_attr c_attr = to_c(attr);
	throw_if_error(sn_spawn(handle, fn, arg, &c_attr), call);
}

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
		auto box = std::make_unique<C>(std::move(callable));
		const int err = spawn(
			[](void *arg) noexcept {
				std::unique_ptr<C> own(static_cast<C *>(arg));
				return Body::call(*own);
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

/*
 * Starts the runtime, calls f as its first task, and returns f's int, or 0 when f returns nothing.
 * Rethrows what f throws; throws std::system_error when the runtime cannot be started, so that
 * f's own negative values are never confused with that.
 */
template <class F>
requires std::invocable<F &> &&(std::is_void_v<std::invoke_result_t<F &>> ||
				std::convertible_to<std::invoke_result_t<F &>, int>)int run(F &&f)
{
	struct first {
		std::remove_reference_t<F> *f;
		bool started = false;
		detail::outcome<std::invoke_result_t<F &>> outcome;
	} task{&f, false, {}};

	const int returned = sn_run(
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
	struct state {
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

/* ---- copying ----------------------------------------------------------------------------- */

/* What copy() did; as struct sn_copy_result, with the error that ended it, if one did. */
struct copied {
	std::uint64_t bytes_read = 0;
	std::uint64_t bytes_written = 0;
	sn_copy_side failed = SN_COPY_NONE;
	std::error_code error;

	/* Whether the end of the stream was reached. */
	explicit operator bool() const noexcept { return !error; }
};

/*
 * Copies from src to dst until the end of the stream. progress(std::size_t) is called after each
 * chunk that was delivered; it must not park and must not throw. May park.
 */
template <class Progress>
requires std::invocable<Progress &, std::size_t> copied copy(tcp &dst, tcp &src,
							     Progress &&progress)
{
	sn_copy_result c_result{};
	const int err = sn_copy(
		dst.get(), src.get(), -1,
		[](void *arg, std::size_t bytes) noexcept {
			(*static_cast<std::remove_reference_t<Progress> *>(arg))(bytes);
		},
		const_cast<void *>(static_cast<const void *>(std::addressof(progress))), &c_result);

	copied done;
	done.bytes_read = c_result.bytes_read;
	done.bytes_written = c_result.bytes_written;
	done.failed = c_result.failed;
	done.error = std::error_code(err < 0 ? -err : 0, std::generic_category());
	return done;
}

inline copied copy(tcp &dst, tcp &src)
{
	return copy(dst, src, [](std::size_t) noexcept {});
}

} // namespace sennit

namespace sn = sennit; // NOLINT: the short name is part of the interface

#endif
