/* SPDX-License-Identifier: MIT */
/*
 * Values that belong to a task (local.h).
 *
 * A sn::task_local is a key, usually a static variable, which must outlive the tasks that have a
 * value for it. The task owns its value: no other task sees it, and it is destroyed in the task,
 * when that replaces it, resets it, or has returned from its function. Tasks that are abandoned at
 * the end of sn_run() do not destroy theirs.
 *
 * get() never parks and never throws. emplace() and reset() park only where the constructor of the
 * new value or the destructor of the previous one does.
 *
 * Threads outside the runtime and signal handlers: what the C header says of the calls underneath.
 */
#ifndef SENNIT_LOCAL_HPP
#define SENNIT_LOCAL_HPP

#include <sennit/local.h>
#include <sennit/result.hpp>
#include <sennit/task.hpp>

#include <concepts>
#include <memory>
#include <utility>

namespace sennit
{

/* The type of sn::inherited. */
struct inherited_t {
};

/* For sn::task_local: tasks get a copy of the value that their parent has when it starts them. */
inline constexpr inherited_t inherited{};

/*
 * A T for each task that sets one. Use a static variable for each purpose. The value is destroyed
 * in its task, when the task's function has returned, as local.h says; the destructor may park, and
 * must not throw.
 *
 *	static sn::task_local<arena> scratch;
 *	static sn::task_local<std::shared_ptr<request>> current{sn::inherited};
 *
 * The copy for a child is made by the parent, in the call that starts the child; when the copy
 * constructor throws, that call throws not_enough_memory.
 */
template <class T>
class task_local
{
public:
	constexpr task_local() noexcept : key_{destroy, nullptr, 0} {}
	constexpr explicit task_local(inherited_t) noexcept requires std::copy_constructible<T>
	    : key_{destroy, copy, SN_LOCAL_INHERITED}
	{
	}
	task_local(const task_local &) = delete;
	task_local &operator=(const task_local &) = delete;

	/* The calling task's value; nullptr when it has none, and outside a task. Valid until the
	 * task changes it or ends. Does not park. */
	T *get() const noexcept
	{
		held *mine = own();
		return mine ? std::addressof(mine->value) : nullptr;
	}

	/*
	 * Makes a value of the arguments for the calling task, and then destroys the previous one.
	 * Throws std::system_error (operation_not_supported) outside a task, std::bad_alloc, and
	 * what the constructor throws. After an exception the previous value is still there.
	 */
	template <class... A>
	requires std::constructible_from<T, A...> T &emplace(A &&...from)
	{
		auto fresh = std::make_unique<held>(std::in_place, std::forward<A>(from)...);
		held *former = own();
		detail::throw_if_error(sn_local_set(&key_, fresh.get()), "sn::task_local::emplace");
		T &value = fresh.release()->value;
		delete former;
		return value;
	}

	/* Destroys the calling task's value, if it has one. */
	void reset() noexcept
	{
		const std::unique_ptr<held> former(own());
		if (former)
			static_cast<void>(sn_local_set(&key_, nullptr));
	}

private:
	struct held final : detail::in_sight {
		template <class... A>
		explicit held(std::in_place_t, A &&...from) : value(std::forward<A>(from)...)
		{
		}
		T value;
	};

	static void destroy(void *value) noexcept { delete static_cast<held *>(value); }
	static void *copy(void *value) noexcept
	{
		try {
			const T &from = static_cast<held *>(value)->value;
			return new held(std::in_place, from);
		} catch (...) {
			return nullptr;
		}
	}
	held *own() const noexcept { return static_cast<held *>(sn_local_get(&key_)); }

	sn_local key_;
};

} // namespace sennit

#endif
