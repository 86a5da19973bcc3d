/* SPDX-License-Identifier: MIT */
/*
 * Tasks: starting the runtime, starting tasks and joining them, and calls that block (run.h,
 * task.h, blocking.h).
 *
 * Threads outside the runtime and signal handlers: what the C headers say of the calls underneath.
 */
#ifndef SENNIT_TASK_HPP
#define SENNIT_TASK_HPP

#include <sennit/blocking.h>
#include <sennit/collector.h>
#include <sennit/result.hpp>
#include <sennit/run.h>
#include <sennit/scope.h>
#include <sennit/select.hpp>
#include <sennit/task.h>
#include <sennit/time.hpp>

#include <cerrno>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

namespace sennit
{

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

/* Derived classes are allocated where a garbage collector sees them, if there is one. */
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

/* A T on the heap, to be passed on by pointer. */
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
 * which was moved into it. Body: a type with a static int call(C &) noexcept. Returns spawn's
 * result.
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
			static_cast<void>(box.release()); /* the task owns it now */
		return err;
	}
}

/* What a detached task runs. */
struct detached_body {
	template <class C>
	static int call(C &callable) noexcept
	{
		try {
			/* The value is of interest only in a child of fork(): the process exits
			 * with it. */
			if constexpr (std::is_convertible_v<std::invoke_result_t<C &>, int>) {
				auto &&value = std::invoke(callable);
				if (!sn_self())
					return static_cast<int>(
						std::forward<decltype(value)>(value));
			} else {
				static_cast<void>(std::invoke(callable));
			}
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
 * Rethrows what f throws. Throws std::system_error when the runtime cannot be started, so f's own
 * negative values are never confused with that.
 *
 * In a child of fork() that returns from f, or from the callable of another task, the process exits
 * with the value if that converts to int, otherwise with 0; an exception ends it by
 * std::terminate().
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
	const int returned = sn_run_with_attr(
		[](void *arg) {
			auto *self = static_cast<first *>(arg);
			self->started = true;
			self->outcome.take_from(*self->f);
			return self->outcome.exit_value();
		},
		&task, &c_attr);
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
 * joins it, so what the task borrows from its creator lives long enough; its value or exception is
 * discarded then. Where the task does not exist, because its run is over or in a child of fork(),
 * the destructor drops the handle. To start a task without waiting for it, use go().
 */
template <class T>
class [[nodiscard]] task
{
public:
	task() = default;
	task(task &&other) noexcept
	    : handle_(std::exchange(other.handle_, nullptr)), run_(other.run_),
	      state_(std::move(other.state_))
	{
	}
	task &operator=(task &&other) noexcept
	{
		if (this != &other) {
			finish();
			handle_ = std::exchange(other.handle_, nullptr);
			run_ = other.run_;
			state_ = std::move(other.state_);
		}
		return *this;
	}
	~task() { finish(); }

	bool joinable() const noexcept { return state_ != nullptr; }

	/*
	 * Waits until the task has ended and returns its value, or rethrows the exception that left
	 * it. Throws std::system_error when there is nothing to join (invalid_argument), when a
	 * task joins itself, or when the calling task's scope is cancelled; in the last case it can
	 * still be joined. May park.
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
	 * Waits for the end, at most until a deadline, without taking the value: true when the task
	 * has ended, false when the deadline has passed. join() then does not wait. Throws the
	 * reason when the scope of the calling task is cancelled. May park.
	 */
	bool wait_until(time_limit until)
	{
		if (!handle_)
			return state_ != nullptr;
		const int err = sn_join_until(handle_, nullptr, detail::to_ns(until));
		if (err == -ETIMEDOUT && detail::is_own_timeout(detail::to_ns(until)))
			return false;
		detail::throw_if_error(detail::reason_of(err), "sn::task::wait_until");
		handle_ = nullptr;
		return true;
	}
	template <class Rep, class Period>
	bool wait_for(std::chrono::duration<Rep, Period> d)
	{
		return wait_until(after(d));
	}

	/*
	 * For select(): f gets a result<void>, or no argument, when the task has ended; join() then
	 * does not wait. Errors: resource_deadlock_would_occur for the calling task itself,
	 * device_or_resource_busy while another task joins it. The case is for one select(), and
	 * the task must not be moved until that is over. Without a task the case is never ready.
	 */
	template <class F>
	auto on_end(F f)
	{
		return detail::end_case<F>(&handle_, !handle_ && state_, std::move(f));
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
			self->f.reset(); /* its captures end with the task, not with join() */
			return self->outcome.exit_value();
		}
		std::optional<F> f;
	};

	void finish() noexcept
	{
		if (handle_ && run_ != sn_private_run()) {
			/* The task does not exist in this child of fork(), which may have runs of
			 * its own. It may have left its state half written. */
			handle_ = nullptr;
			static_cast<void>(state_.release());
		} else if (handle_) {
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
	std::uint32_t run_ = 0;        /* the task's */
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
	started.run_ = sn_private_run();
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
 * throws what it throws. f must not call anything that may park.
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

} // namespace sennit

#endif
