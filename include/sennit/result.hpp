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

#ifndef __cpp_exceptions
#	error "sennit.hpp needs exceptions: compile without -fno-exceptions, or use sennit.h"
#endif

#include <sennit/task.h>

#include <cerrno>
#include <concepts>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <functional>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>
#include <version>

#ifdef __cpp_lib_expected
#	include <expected>
#endif

namespace sennit
{

/*
 * Error codes and the negative errno values of the C interface. The error codes are of
 * std::generic_category(), so they compare with std::errc; those of TLS have a category of their
 * own (tls.hpp), and compare with std::errc, too. from_errno() of 0 or more is no error.
 */
inline std::error_code from_errno(long returned) noexcept
{
	return {returned < 0 ? static_cast<int>(-returned) : 0, std::generic_category()};
}

/* A negative errno value, for functions that C calls. -EIO for a code whose category does not say
 * which errno value it is equivalent to. */
inline int to_errno(const std::error_code &error) noexcept
{
	const std::error_condition plain = error.default_error_condition();
	if (plain.category() != std::generic_category() &&
	    plain.category() != std::system_category())
		return error ? -EIO : 0;
	return -plain.value();
}

/* An error on its way into a sn::result; as std::unexpected<std::error_code>. An error code of 0,
 * which is none, becomes std::errc::invalid_argument. */
class unexpected
{
public:
	explicit unexpected(std::error_code error) noexcept
	    : error_(error ? error : std::make_error_code(std::errc::invalid_argument))
	{
	}
	explicit unexpected(std::errc error) noexcept : unexpected(std::make_error_code(error)) {}

	const std::error_code &error() const noexcept { return error_; }

private:
	std::error_code error_;
};

template <class T>
class result;

namespace detail
{

template <class T>
inline constexpr bool is_result = false;
template <class T>
inline constexpr bool is_result<result<T>> = true;

/* Calls f with the value; without an argument if the result holds none. */
template <class Result, class F>
decltype(auto) call_with_value(Result &&from, F &&f)
{
	if constexpr (std::is_void_v<typename std::remove_cvref_t<Result>::value_type>)
		return std::invoke(std::forward<F>(f));
	else
		return std::invoke(std::forward<F>(f), *std::forward<Result>(from));
}

/*
 * The operations of std::expected on a result:
 *
 *	and_then(f)         calls f with the value; f returns a result of any type
 *	transform(f)        calls f with the value; f returns the new value, or nothing
 *	or_else(f)          calls f with the error; f returns a result of the same type
 *	transform_error(f)  calls f with the error; f returns another error code
 *
 * An error passes through the first two, a value through the others. f of a result<void> has no
 * argument.
 */
template <class Derived>
class monadic
{
public:
	template <class F>
	auto and_then(F &&f) &
	{
		return then(self(), std::forward<F>(f));
	}
	template <class F>
	auto and_then(F &&f) const &
	{
		return then(self(), std::forward<F>(f));
	}
	template <class F>
	auto and_then(F &&f) &&
	{
		return then(std::move(self()), std::forward<F>(f));
	}

	template <class F>
	auto transform(F &&f) &
	{
		return transformed(self(), std::forward<F>(f));
	}
	template <class F>
	auto transform(F &&f) const &
	{
		return transformed(self(), std::forward<F>(f));
	}
	template <class F>
	auto transform(F &&f) &&
	{
		return transformed(std::move(self()), std::forward<F>(f));
	}

	template <class F>
	Derived or_else(F &&f) const &
	{
		return self() ? self() : Derived(std::invoke(std::forward<F>(f), self().error()));
	}
	template <class F>
	Derived or_else(F &&f) &&
	{
		if (self())
			return std::move(self());
		return std::invoke(std::forward<F>(f), self().error());
	}

	template <class F>
	Derived transform_error(F &&f) const &
	{
		if (self())
			return self();
		return unexpected(std::invoke(std::forward<F>(f), self().error()));
	}
	template <class F>
	Derived transform_error(F &&f) &&
	{
		if (self())
			return std::move(self());
		return unexpected(std::invoke(std::forward<F>(f), self().error()));
	}

private:
	Derived &self() noexcept { return static_cast<Derived &>(*this); }
	const Derived &self() const noexcept { return static_cast<const Derived &>(*this); }

	template <class Self, class F>
	static auto then(Self &&self, F &&f)
	{
		using next = std::remove_cvref_t<decltype(call_with_value(std::forward<Self>(self),
									  std::forward<F>(f)))>;
		static_assert(is_result<next>, "and_then() needs a function that returns a result");
		if (!self)
			return next(unexpected(self.error()));
		return next(call_with_value(std::forward<Self>(self), std::forward<F>(f)));
	}

	template <class Self, class F>
	static auto transformed(Self &&self, F &&f)
	{
		using value = std::remove_cv_t<decltype(call_with_value(std::forward<Self>(self),
									std::forward<F>(f)))>;
		static_assert(!std::is_reference_v<value>, "return a value, not a reference");
		if (!self)
			return result<value>(unexpected(self.error()));
		if constexpr (std::is_void_v<value>) {
			call_with_value(std::forward<Self>(self), std::forward<F>(f));
			return result<value>();
		} else {
			return result<value>(
				call_with_value(std::forward<Self>(self), std::forward<F>(f)));
		}
	}
};

} // namespace detail

/*
 * A T, or an error instead; as std::expected<T, std::error_code>, to and from which it converts
 * where the library has that (C++23). The error compares with std::errc:
 * `r.error() == std::errc::timed_out`. value() throws it as std::system_error; * and -> require
 * that the caller has tested.
 *
 *	return sn::tcp::connect(address, 5s).and_then(greet).transform(parse).value_or(nothing);
 *
 * A result converts to std::expected implicitly. Do not write std::expected<bool, ...>(r): that
 * asks whether r has a value.
 */
template <class T>
class [[nodiscard]] result : public detail::monadic<result<T>>
{
public:
	using value_type = T;
	using error_type = std::error_code;

	result(T value) : either_(std::in_place_index<0>, std::move(value)) {}
	result(unexpected error) noexcept : either_(std::in_place_index<1>, error.error()) {}

	bool has_value() const noexcept { return either_.index() == 0; }
	explicit operator bool() const noexcept { return has_value(); }

	/* An empty error code, which is false, when there is a value. */
	std::error_code error() const noexcept
	{
		const std::error_code *error = std::get_if<1>(&either_);
		return error ? *error : std::error_code();
	}

	T &value() & { return check(), **this; }
	const T &value() const & { return check(), **this; }
	/* By value, unlike std::expected: `for (auto &each : resolve(...).value())` would otherwise
	 * read a list that is gone, before C++23. */
	T value() && { return check(), *std::move(*this); }

	template <class U = T>
	T value_or(U &&other) const &
	{
		return has_value() ? **this : static_cast<T>(std::forward<U>(other));
	}
	template <class U = T>
	T value_or(U &&other) &&
	{
		return has_value() ? *std::move(*this) : static_cast<T>(std::forward<U>(other));
	}

	T &operator*() &noexcept { return *std::get_if<0>(&either_); }
	const T &operator*() const &noexcept { return *std::get_if<0>(&either_); }
	T &&operator*() &&noexcept { return std::move(*std::get_if<0>(&either_)); }
	T *operator->() noexcept { return std::get_if<0>(&either_); }
	const T *operator->() const noexcept { return std::get_if<0>(&either_); }

#ifdef __cpp_lib_expected
	using expected = std::expected<T, std::error_code>;

	result(std::unexpected<std::error_code> error) : result(unexpected(error.error())) {}
	result(expected other)
	    : result(other ? result(*std::move(other)) : result(unexpected(other.error())))
	{
	}
	operator expected() const &requires std::copy_constructible<T>
	{
		return has_value() ? expected(std::in_place, **this)
				   : expected(std::unexpect, error());
	}
	operator expected() &&
	{
		return has_value() ? expected(std::in_place, *std::move(*this))
				   : expected(std::unexpect, error());
	}
#endif

private:
	void check() const
	{
		if (!has_value())
			throw std::system_error(error());
	}

	std::variant<T, std::error_code> either_;
};

/* Success, or an error instead. */
template <>
class [[nodiscard]] result<void> : public detail::monadic<result<void>>
{
public:
	using value_type = void;
	using error_type = std::error_code;

	result() = default;
	result(unexpected error) noexcept : error_(error.error()) {}

	bool has_value() const noexcept { return !error_; }
	explicit operator bool() const noexcept { return has_value(); }
	std::error_code error() const noexcept { return error_; }

	void value() const
	{
		if (error_)
			throw std::system_error(error_);
	}

#ifdef __cpp_lib_expected
	using expected = std::expected<void, std::error_code>;

	result(std::unexpected<std::error_code> error) : result(unexpected(error.error())) {}
	result(const expected &other) : result()
	{
		if (!other)
			*this = unexpected(other.error());
	}
	operator expected() const
	{
		return error_ ? expected(std::unexpect, error_) : expected();
	}
#endif

private:
	std::error_code error_;
};

namespace detail
{

/* Conversions of what C calls return: a negative errno value, or a result. */
inline unexpected failed(long returned) noexcept
{
	return unexpected(from_errno(returned));
}

inline result<void> nothing_or_error(long returned)
{
	return returned < 0 ? result<void>(failed(returned)) : result<void>();
}

inline result<std::size_t> size_or_error(ssize_t returned)
{
	if (returned < 0)
		return failed(returned);
	return static_cast<std::size_t>(returned);
}

/* A string can contain a zero, at which the C call would cut it: another host would be connected
 * to, or half of a name be verified. No call is made with such a string. */
template <class... Strings>
bool lacks_zeros(const Strings &...each) noexcept
{
	return ((each.find('\0') == Strings::npos) && ...);
}
inline constexpr std::errc zero_inside = std::errc::invalid_argument;

inline void throw_if_error(int returned, const char *call)
{
	if (returned < 0)
		throw std::system_error(-returned, std::generic_category(), call);
}

/* Called while the exception is being handled, so that the report of std::terminate() shows it. */
[[noreturn]] inline void exception_left_task() noexcept
{
	const sn_task *self = sn_self();
	if (self)
		std::fprintf(stderr, "sennit: an exception left the detached task %llu \"%s\"\n",
			     static_cast<unsigned long long>(sn_task_id(self)), sn_task_name(self));
	else
		std::fprintf(stderr, "sennit: an exception left a task that has forked, in the "
				     "child\n");
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

	/*
	 * For the function of a task to return. In a child of fork(), where the task ends the
	 * process and nobody joins it, the value, if that is an int or becomes one; and an
	 * exception ends the child as one that leaves main() does. Otherwise 0.
	 */
	int exit_value() const noexcept
	{
		if (sn_self())
			return 0;
		if (exception_) {
			try {
				std::rethrow_exception(exception_);
			} catch (...) {
				exception_left_task();
			}
		}
		if constexpr (std::is_convertible_v<const stored &, int>)
			return static_cast<int>(*value_);
		else
			return 0;
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
