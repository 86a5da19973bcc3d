/* SPDX-License-Identifier: MIT */
/*
 * Streams of bytes (stream.h): any descriptor as a sn::stream, and what a connection (net.hpp) and
 * a Unix socket (unix.hpp) have in common with it.
 *
 * Threads outside the runtime and signal handlers: what the C header says of the calls underneath.
 */
#ifndef SENNIT_STREAM_HPP
#define SENNIT_STREAM_HPP

#include <sennit/result.hpp>
#include <sennit/stream.h>
#include <sennit/time.hpp>

#include <climits>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace sennit
{

/*
 * Owns an object of the C interface; the destructor closes it. Movable. Any number of tasks may use
 * one object at a time under the rules of its C header, but moving, closing or destroying it must
 * be the last use. On an empty object (default constructed, moved from, closed) only operator bool,
 * get() and close() may be called.
 */
template <class Handle, void (*close_handle)(Handle *)>
class unique_handle
{
public:
	using handle_type = Handle;

	unique_handle() = default;

	/* Takes over the object. */
	explicit unique_handle(Handle *owned) noexcept : owned_(owned) {}

	void close() noexcept { owned_.reset(); }
	explicit operator bool() const noexcept { return owned_ != nullptr; }

	/* For calls of the C interface; it still belongs to this object. */
	Handle *get() const noexcept { return owned_.get(); }

protected:
	/* Gives up the ownership to the caller. */
	Handle *release() noexcept { return owned_.release(); }

private:
	struct closer {
		void operator()(Handle *owned) const noexcept { close_handle(owned); }
	};

	std::unique_ptr<Handle, closer> owned_;
};

namespace detail
{

/* The number of pieces for a C call; -1, which the call refuses, if there are too many. */
inline int piece_count(std::span<const iovec> pieces) noexcept
{
	return pieces.size() > INT_MAX ? -1 : static_cast<int>(pieces.size());
}

/* Calls make(handle *), by which a C call makes something, and returns the object that owns it. */
template <class T, class Make>
result<T> made(Make make)
{
	typename T::handle_type *handle = nullptr;
	const int err = make(&handle);
	if (err < 0)
		return failed(err);
	return T(handle);
}

/* Returns the text that a C call writes, in get(object, text, size). */
template <std::size_t size, class Get, class Handle>
result<std::string> text_of(Get get, Handle *object)
{
	char text[size];
	const int length = get(object, text, size);
	if (length < 0)
		return failed(length);
	return std::string(text, static_cast<std::size_t>(length));
}

inline sn_stream *stream_of(sn_stream *stream) noexcept
{
	return stream;
}

template <class Handle, sn_stream *(*stream_of)(Handle *)>
void close_stream(Handle *handle) noexcept
{
	sn_stream_close(stream_of(handle));
}

} // namespace detail

/*
 * What a stream, a connection and a Unix socket can do: the calls of stream.h. On a Unix socket
 * that is not of the type `stream`, use only the deadlines, cancel() and native_handle().
 */
template <class Handle, sn_stream *(*stream_of)(Handle *)>
class stream_ops : public unique_handle<Handle, detail::close_stream<Handle, stream_of>>
{
public:
	using unique_handle<Handle, detail::close_stream<Handle, stream_of>>::unique_handle;

	/* Reads at least one byte; 0 is the end of the stream. May park. */
	result<std::size_t> read(void *buf, std::size_t size)
	{
		return detail::size_or_error(sn_stream_read(as_stream(), buf, size));
	}
	result<std::size_t> read(std::span<std::byte> buf) { return read(buf.data(), buf.size()); }

	/*
	 * Reads exactly that many bytes, fewer only at the end of the stream. After an error the
	 * bytes that were read before it are in buf: *done, if given, says how many, and the same
	 * call continues (sn_stream_read_full()). May park.
	 */
	result<std::size_t> read_full(void *buf, std::size_t size, std::size_t *done = nullptr)
	{
		return detail::size_or_error(sn_stream_read_full(as_stream(), buf, size, done));
	}
	result<std::size_t> read_full(std::span<std::byte> buf, std::size_t *done = nullptr)
	{
		return read_full(buf.data(), buf.size(), done);
	}

	/* As read(), into several pieces of memory: at most IOV_MAX. May park. */
	result<std::size_t> readv(std::span<const iovec> pieces)
	{
		return detail::size_or_error(
			sn_stream_readv(as_stream(), pieces.data(), detail::piece_count(pieces)));
	}

	/* Writes some of the bytes, at least one. May park. */
	result<std::size_t> write(const void *buf, std::size_t size)
	{
		return detail::size_or_error(sn_stream_write(as_stream(), buf, size));
	}
	result<std::size_t> write(std::span<const std::byte> bytes)
	{
		return write(bytes.data(), bytes.size());
	}

	/* As write(), from several pieces of memory: at most IOV_MAX. May park. */
	result<std::size_t> writev(std::span<const iovec> pieces)
	{
		return detail::size_or_error(
			sn_stream_writev(as_stream(), pieces.data(), detail::piece_count(pieces)));
	}

	/* Writes all of the bytes. May park. */
	result<void> write_all(const void *buf, std::size_t size)
	{
		return detail::nothing_or_error(
			sn_stream_write_all(as_stream(), buf, size, nullptr));
	}
	result<void> write_all(std::string_view text)
	{
		return write_all(text.data(), text.size());
	}
	result<void> write_all(std::span<const std::byte> bytes)
	{
		return write_all(bytes.data(), bytes.size());
	}

	/*
	 * Writes all bytes of any number of pieces of memory. *done, if given, says how many were
	 * written, also after an error, and the same call then continues (sn_stream_writev_all()).
	 * May park.
	 */
	result<void> writev_all(std::span<const iovec> pieces, std::size_t *done = nullptr)
	{
		return detail::nothing_or_error(sn_stream_writev_all(
			as_stream(), pieces.data(), detail::piece_count(pieces), done));
	}

	/* Sends the end of the stream; reading continues. */
	result<void> shutdown_write()
	{
		return detail::nothing_or_error(sn_stream_shutdown(as_stream(), SN_SHUT_WRITE));
	}

	/* Reads return 0 from now on; writing continues. */
	result<void> shutdown_read()
	{
		return detail::nothing_or_error(sn_stream_shutdown(as_stream(), SN_SHUT_READ));
	}

	/* Closes TCP with a reset; otherwise as close(), which closes in good order unless there
	 * are bytes of the peer that were not read (sn_stream_close()). */
	void abort() noexcept
	{
		if (*this)
			sn_stream_abort(stream_of(this->release()));
	}

	/* Makes every call fail with std::errc::operation_canceled, from now on. Any task. */
	void cancel() noexcept { sn_stream_cancel(as_stream()); }

	void set_read_deadline(time_limit until) noexcept
	{
		sn_stream_set_read_deadline(as_stream(), detail::to_ns(until));
	}
	void set_write_deadline(time_limit until) noexcept
	{
		sn_stream_set_write_deadline(as_stream(), detail::to_ns(until));
	}

	/* The descriptor, for setsockopt() and the like, which stays this object's; negative when
	 * the stream is closed (sn_stream_fd()). */
	int native_handle() const noexcept { return sn_stream_fd(as_stream()); }

	/* For the calls of stream.h; it still belongs to this object. */
	sn_stream *as_stream() const noexcept { return stream_of(this->get()); }
};

/* Any descriptor that carries bytes: sn_stream. */
class stream : public stream_ops<sn_stream, detail::stream_of>
{
public:
	using stream_ops::stream_ops;

	/* Takes over a descriptor; on failure it stays the caller's. */
	static result<stream> adopt(int fd)
	{
		return detail::made<stream>(
			[fd](sn_stream **made) { return sn_stream_adopt(made, fd); });
	}
};

/* A stream, a connection, or a Unix socket. */
template <class T>
concept byte_stream = requires(const T &each)
{
	[]<class Handle, sn_stream *(*stream_of)(Handle *)>(const stream_ops<Handle, stream_of> &) {
	}(each);
};

} // namespace sennit

#endif
