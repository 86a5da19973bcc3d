/* SPDX-License-Identifier: MIT */
/*
 * Results of the C++ interface, which hold a value or an error, and what all its headers need.
 *
 * Threads outside the runtime and signal handlers: what the C headers say of the calls underneath.
 */
#ifndef SENNIT_RESULT_HPP
#define SENNIT_RESULT_HPP

#if __cplusplus < 202002L
#	error "sennit.hpp is C++20: compile with -std=c++20; sennit.h serves older modes"
#endif

#include <sennit/task.h>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <functional>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

namespace sennit
{

/* An errno value on its way into a sn::result. */
struct failure {
	int number;
};

/*
 * A T, or an error instead; as std::expected<T, std::error_code>. The error is in
 * std::generic_category(), so it compares with std::errc: `r.error() == std::errc::timed_out`.
 * value() throws the error as std::system_error; * and -> require that the caller has tested it.
 */
template <class T>
class [[nodiscard]] result
{
public:
	result(T value) : either_(std::in_place_index<0>, std::move(value)) {}
	result(failure error) : either_(std::in_place_index<1>, error.number) {}

	bool has_value() const noexcept { return either_.index() == 0; }
	explicit operator bool() const noexcept { return has_value(); }

	/* An empty error code, which is false, when there is a value. */
	std::error_code error() const noexcept
	{
		const int *number = std::get_if<1>(&either_);
		return {number ? *number : 0, std::generic_category()};
	}

	T &value() & { return check(), **this; }
	const T &value() const & { return check(), **this; }
	T &&value() && { return check(), *std::move(*this); }

	T value_or(T other) const & { return has_value() ? **this : std::move(other); }
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

/* Success, or an error instead. */
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

/* From what C calls return: a negative errno value, or a result. */
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

/* Called while the exception is being handled, so that the report of std::terminate() shows it. */
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

} // namespace sennit

#endif
