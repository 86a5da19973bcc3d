/* SPDX-License-Identifier: MIT */
/*
 * Channels of values (channel.h), as cases of a select, too (select.hpp).
 *
 * A channel object is a counted handle. The channel lives until its last handle is gone, and then
 * destroys the elements that were not received. A value that was sent belongs to the channel, and
 * then to the one receiver that gets it.
 *
 * Sending and receiving park a task, or put a plain thread to sleep, until there is room or an
 * element. try_send(), try_recv() and close() never do. Errors are results. What throws is the
 * constructor of a channel, the iterator, and what belongs to T: its constructors, and the
 * allocation for a T that travels on the heap.
 *
 * Threads outside the runtime and signal handlers: what the C headers say of the calls underneath.
 */
#ifndef SENNIT_CHANNEL_HPP
#define SENNIT_CHANNEL_HPP

#include <sennit/channel.h>
#include <sennit/select.hpp>
#include <sennit/task.hpp>

#include <cerrno>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

namespace sennit
{

namespace detail
{

/* Whether a T can be moved straight from its source to its destination while the channel is
 * locked. */
template <class T>
inline constexpr bool carried_in_place = std::is_trivially_copyable_v<T> ||
					 (std::is_nothrow_move_constructible_v<T> &&
					  alignof(T) <= alignof(std::max_align_t));

/* The elements of a channel of T: T itself, or a pointer to one on the heap. */
template <class T>
using carried = std::conditional_t<carried_in_place<T>, T, boxed<T> *>;

template <class T>
inline constexpr sn_elem_ops ops_in_place = {
	[](void *to, void *from) noexcept { ::new (to) T(std::move(*static_cast<T *>(from))); },
	[](void *elem) noexcept { static_cast<T *>(elem)->~T(); },
};

/* The pointers are copied bytewise. */
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

/* An element to be sent, whose value the caller owns. */
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
	/* The channel owns it now. */
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
 * A channel of T, as in channel.h: a handle, whose copies all refer to the same channel; the last
 * one frees the channel, and destroys the elements in it. The handle itself must not be changed
 * while others use it, as with std::shared_ptr. Any tasks or plain threads may make calls through
 * it at the same time, also through a const one.
 *
 * T must be movable; it need not be copyable or default constructible. A trivially copyable T is
 * copied bytewise. A T whose move constructor is noexcept is moved from the sender's memory into
 * the receiver's, or into the buffer, without an allocation. It is moved with the channel locked,
 * possibly by another task, so its constructor and destructor must not call sennit. Any other T
 * travels on the heap.
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

	/* A new channel, unbuffered or with a buffer. Throws std::system_error: not_enough_memory,
	 * or invalid_argument for an impossible capacity. */
	explicit channel(std::size_t capacity = 0)
	{
		detail::throw_if_error(
			sn_chan_new_with_ops(
				&chan_, sizeof(detail::carried<T>),
				capacity > PTRDIFF_MAX ? -1 : static_cast<ssize_t>(capacity),
				detail::elem_ops<T>()),
			"sn::channel");
	}

	/* No channel. In select() its cases are never ready. */
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
	~channel() { sn_chan_unref(chan_); }

	/*
	 * Sends the value. When that fails, value is unchanged, except that a T that travels on the
	 * heap has been moved from and is gone. May park.
	 */
	result<void> send(T &&value, time_limit until = no_deadline) const
	{
		return send_by(value, detail::to_ns(until));
	}
	result<void> send(const T &value, time_limit until = no_deadline) const
	{
		T copy(value);
		return send_by(copy, detail::to_ns(until));
	}

	/* Fails with std::errc::resource_unavailable_try_again when it would have to wait. */
	result<void> try_send(T &&value) const { return send_by(value, SN_TRY); }
	result<void> try_send(const T &value) const
	{
		T copy(value);
		return send_by(copy, SN_TRY);
	}

	/* Fails with std::errc::broken_pipe when the channel is closed and empty. May park. */
	result<T> recv(time_limit until = no_deadline) const
	{
		return recv_by(detail::to_ns(until));
	}
	result<T> try_recv() const { return recv_by(SN_TRY); }

	/* Returns true when this call has closed the channel; false when it was closed before, or
	 * there is none. */
	bool close() const noexcept { return sn_chan_close(chan_) == 0; }

	/* How many elements are in the buffer at this moment, and how many fit. */
	std::size_t size() const noexcept { return sn_chan_len(chan_); }
	std::size_t capacity() const noexcept { return sn_chan_cap(chan_); }

	explicit operator bool() const noexcept { return chan_ != nullptr; }
	friend bool operator==(const channel &, const channel &) = default;

	/* For calls of the C interface; its elements are T, or T * where a T travels on the
	 * heap. */
	sn_chan *get() const noexcept { return chan_; }

	/* For select(): f gets a result<T>, or no argument, when an element has been received. */
	template <class F>
	auto on_recv(F f) const
	{
		return detail::recv_case<T, F>(chan_, std::move(f));
	}

	/* For select(): f gets a result<void>, or no argument, when the value has been sent. After
	 * that the case is never ready. Otherwise the value is destroyed with the case. */
	template <class F>
	auto on_send(T value, F f) const
	{
		return detail::send_case<T, F>(chan_, std::move(value), std::move(f));
	}

	/*
	 * Iterates over what is received until the channel is closed; the elements may be moved
	 * from. Incrementing may park, and throws std::system_error when receiving fails for
	 * another reason: the scope was cancelled.
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
			return detail::failed(err);
		return in.take();
	}

	sn_chan *chan_ = nullptr;
};

namespace detail
{

template <class T, class F>
class recv_case : public select_case
{
public:
	recv_case(sn_chan *chan, F f) : chan_(chan), f_(std::move(f)) {}
	sn_case prepare() noexcept { return of_channel(chan_, in_.memory(), SN_CASE_RECV); }
	void finish(int err)
	{
		if (err < 0)
			tell(f_, result<T>(detail::failed(err)));
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
	sn_case prepare() noexcept
	{
		return of_channel(sent_ ? nullptr : chan_, out_.memory(), SN_CASE_SEND);
	}
	void finish(int err)
	{
		if (err == 0) {
			out_.sent();
			sent_ = true;
		}
		tell(f_, nothing_or_error(err));
	}

private:
	sn_chan *chan_;
	T value_;
	outbox<T> out_;
	F f_;
	bool sent_ = false; /* the value is the channel's */
};

} // namespace detail

} // namespace sennit

#endif
