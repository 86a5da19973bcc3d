/* SPDX-License-Identifier: MIT */
/*
 * Buffered reading and writing: lines, delimiters, many small writes (buffered.h).
 *
 * A reader or a writer borrows its stream, or the object of the program in place of one. That must
 * outlive it, and is never closed by it. It owns its buffer, unless the caller passes memory for
 * one. It can be neither copied nor moved, and one task at a time may use it; a reader and a writer
 * of the same stream may be used by two tasks.
 *
 * A call parks only while it waits for the stream: for bytes that are not in the buffer, or to
 * write what the buffer does not hold. Errors are results; only the constructors and the iterators
 * of reader::lines() throw. What was written and not flushed is lost when the writer is destroyed.
 *
 * Threads outside the runtime and signal handlers: what the C headers say of the calls underneath.
 */
#ifndef SENNIT_BUFFERED_HPP
#define SENNIT_BUFFERED_HPP

#include <sennit/buffered.h>
#include <sennit/stream.hpp>

#include <cstdarg>
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

namespace sennit
{

namespace detail
{

inline ssize_t to_c(const result<std::size_t> &moved) noexcept
{
	return moved ? static_cast<ssize_t>(*moved) : static_cast<ssize_t>(to_errno(moved.error()));
}

/* The bytes that a call has returned in a buffer; no value at the end of the stream. */
inline result<std::optional<std::string_view>> found(ssize_t returned, const char *data,
						     std::size_t size)
{
	if (returned < 0)
		return detail::failed(returned);
	if (returned == 0)
		return std::optional<std::string_view>();
	return std::optional(std::string_view(data, size));
}

} // namespace detail

/* What a reader reads from: a stream, a connection, or another object with such a read(), which
 * returns a result<std::size_t>: at least one byte, or 0 at the end. */
template <class T>
concept byte_source = byte_stream<T> || requires(T &from, void *buf, std::size_t size)
{
	detail::to_c(from.read(buf, size));
};

/* What a writer writes to: a stream, a connection, or another object with such a write(), which
 * returns a result<std::size_t>: some of the bytes, at least one. */
template <class T>
concept byte_target = byte_stream<T> || requires(T &to, const void *buf, std::size_t size)
{
	detail::to_c(to.write(buf, size));
};

/*
 * Gathers writes in a buffer. A writer cannot be moved. Its target must outlive it, and must not be
 * moved either, unless it is a stream or a connection. The destructor discards what was not
 * flushed, because nobody would learn of the errors.
 *
 * The first error stays with the writer, and all later calls return it: buffered.h says more.
 */
class writer
{
public:
	/* Allocates a buffer of that size; 0 stands for SN_BUFFERED_SIZE. Throws std::system_error
	 * (not_enough_memory). A write() of the target must not throw. */
	template <byte_target T>
	explicit writer(T &to, std::size_t size = 0)
	{
		detail::throw_if_error(init(to, nullptr, size), "sn::writer");
	}
	/* With the caller's memory as the buffer, at least one byte. */
	template <byte_target T>
	writer(T &to, std::span<char> buffer)
	{
		detail::throw_if_error(init(to, buffer.data(), buffer.size()), "sn::writer");
	}
	writer(const writer &) = delete;
	writer &operator=(const writer &) = delete;
	~writer() { sn_writer_free(&writer_); }

	/* Writes all of the bytes; may park if they do not fit into the buffer. */
	result<void> write(const void *buf, std::size_t size)
	{
		return detail::nothing_or_error(sn_writer_write(&writer_, buf, size));
	}
	result<void> write(std::string_view text) { return write(text.data(), text.size()); }
	result<void> write(std::span<const std::byte> bytes)
	{
		return write(bytes.data(), bytes.size());
	}

	/* Writes text as printf(3) does. May park. */
	SN_PRINTF(2, 3) result<void> print(const char *format, ...)
	{
		std::va_list args;
		va_start(args, format);
		const ssize_t n = sn_writer_vprint(&writer_, format, args);
		va_end(args);
		return detail::nothing_or_error(n);
	}

	/* Sends everything that is in the buffer. May park. */
	result<void> flush() { return detail::nothing_or_error(sn_writer_flush(&writer_)); }

	/* How many bytes are in the buffer. */
	std::size_t buffered() const noexcept { return sn_writer_buffered(&writer_); }

	/* The error that stays with the writer. */
	std::error_code error() const noexcept
	{
		return {-sn_writer_error(&writer_), std::generic_category()};
	}

	/* Forgets the error. Returns how many bytes of the write that failed were taken; the caller
	 * writes the others again. */
	std::size_t clear_error() noexcept
	{
		std::size_t taken = 0;
		sn_writer_clear_error(&writer_, &taken);
		return taken;
	}

	sn_writer *get() noexcept { return &writer_; }

private:
	template <class T>
	int init(T &to, void *buf, std::size_t size)
	{
		if constexpr (byte_stream<T>)
			return sn_writer_init(&writer_, to.as_stream(), buf, size);
		else
			return sn_writer_init_with_fn(
				&writer_,
				[](void *arg, const iovec *iov, int) noexcept {
					return detail::to_c(static_cast<T *>(arg)->write(
						iov->iov_base, iov->iov_len));
				},
				std::addressof(to), buf, size);
	}

	sn_writer writer_;
};

/*
 * Reads through a buffer. A reader cannot be moved. Its source must outlive it, and must not be
 * moved either, unless it is a stream or a connection.
 *
 * Calls that return a std::string_view give memory of the buffer, valid until the next call on the
 * reader, and an empty optional at the end of the stream:
 *
 *	sn::reader in(conn);
 *	while (auto line = in.line().value())
 *		answer(*line);
 *
 * After an error nothing is lost, and the call can be repeated. std::errc::message_size: the result
 * would be longer than the limit; everything stays in the buffer.
 */
class reader
{
public:
	/* Allocates a buffer of that size; 0 stands for SN_BUFFERED_SIZE. Throws std::system_error
	 * (not_enough_memory). A read() of the source must not throw. */
	template <byte_source T>
	explicit reader(T &from, std::size_t size = 0)
	{
		detail::throw_if_error(init(from, nullptr, size), "sn::reader");
	}
	/* With the caller's memory as the buffer, at least one byte. */
	template <byte_source T>
	reader(T &from, std::span<char> buffer)
	{
		detail::throw_if_error(init(from, buffer.data(), buffer.size()), "sn::reader");
	}
	reader(const reader &) = delete;
	reader &operator=(const reader &) = delete;
	~reader() { sn_reader_free(&reader_); }

	/* Sets the most bytes that a line with its end, or another piece in the buffer, may have
	 * (sn_reader_set_limit()). */
	result<void> set_limit(std::size_t limit) noexcept
	{
		return detail::nothing_or_error(sn_reader_set_limit(&reader_, limit));
	}

	/* Has the reader flush the writer whenever it is about to ask for bytes. The writer must
	 * exist as long as the reader is used (sn_reader_tie()). */
	void tie(writer &to) noexcept { sn_reader_tie(&reader_, to.get()); }
	void untie() noexcept { sn_reader_tie(&reader_, nullptr); }

	/* Reads a line, and returns it without the LF or CR LF that ends it. May park. */
	result<std::optional<std::string_view>> line()
	{
		char *text = nullptr;
		std::size_t length = 0;
		const ssize_t n = sn_reader_line(&reader_, &text, &length);
		if (n >= 0)
			cut_off_ = n > 0 && static_cast<std::size_t>(n) == length;
		return detail::found(n, text, length);
	}

	/* Whether the last line ended with the stream, and not with LF. */
	bool cut_off() const noexcept { return cut_off_; }

	/* Reads everything up to and including a delimiter. What is left at the end of the stream
	 * comes without one. May park. */
	result<std::optional<std::string_view>> until(std::string_view delimiter)
	{
		char *data = nullptr;
		const ssize_t n =
			sn_reader_through(&reader_, delimiter.data(), delimiter.size(), &data);
		return detail::found(n, data, static_cast<std::size_t>(n));
	}
	result<std::optional<std::string_view>> until(char delimiter)
	{
		return until(std::string_view(&delimiter, 1));
	}

	/* Waits for at least that many bytes, fewer only at the end of the stream; takes none. May
	 * park. */
	result<std::string_view> peek(std::size_t size)
	{
		char *data = nullptr;
		const ssize_t n = sn_reader_peek(&reader_, size, &data);
		if (n < 0)
			return detail::failed(n);
		return std::string_view(data, static_cast<std::size_t>(n));
	}

	/* Takes exactly that many bytes, fewer only at the end of the stream. May park. */
	result<std::string_view> take(std::size_t size)
	{
		char *data = nullptr;
		const ssize_t n = sn_reader_take(&reader_, size, &data);
		if (n < 0)
			return detail::failed(n);
		return std::string_view(data, static_cast<std::size_t>(n));
	}

	/* Reads at least one byte; 0 is the end of the stream. May park. */
	result<std::size_t> read(void *buf, std::size_t size)
	{
		return detail::size_or_error(sn_reader_read(&reader_, buf, size));
	}
	result<std::size_t> read(std::span<std::byte> buf) { return read(buf.data(), buf.size()); }

	/* Reads exactly that many bytes, fewer only at the end of the stream. *done, if given, says
	 * how many are in buf, also after an error, and the same call then continues. May park. */
	result<std::size_t> read_full(void *buf, std::size_t size, std::size_t *done = nullptr)
	{
		return detail::size_or_error(sn_reader_read_full(&reader_, buf, size, done));
	}
	result<std::size_t> read_full(std::span<std::byte> buf, std::size_t *done = nullptr)
	{
		return read_full(buf.data(), buf.size(), done);
	}

	/* Discards that many bytes. Returns how many: fewer only at the end of the stream. May
	 * park. */
	result<std::size_t> skip(std::size_t size, std::size_t *done = nullptr)
	{
		return detail::size_or_error(sn_reader_skip(&reader_, size, done));
	}

	/* Discards everything up to and including a delimiter. Returns whether there was one. May
	 * park. */
	result<bool> skip_until(std::string_view delimiter)
	{
		const int n = sn_reader_skip_through(&reader_, delimiter.data(), delimiter.size());
		if (n < 0)
			return detail::failed(n);
		return n > 0;
	}

	/* How many bytes are in the buffer. */
	std::size_t buffered() const noexcept { return sn_reader_buffered(&reader_); }

	sn_reader *get() noexcept { return &reader_; }

	/*
	 * The lines that are still to come, as a std::ranges::input_range of std::string_view. Each
	 * is valid until the next. Beginning and incrementing may park, and throw std::system_error
	 * when reading fails.
	 *
	 *	for (std::string_view line : in.lines())
	 *		answer(line);
	 */
	class line_range
	{
	public:
		/* At one line. */
		class iterator
		{
		public:
			using iterator_concept = std::input_iterator_tag;
			using value_type = std::string_view;
			using difference_type = std::ptrdiff_t;

			iterator() = default;
			explicit iterator(reader *from) : from_(from) { ++*this; }

			std::string_view operator*() const noexcept { return *line_; }
			const std::string_view *operator->() const noexcept { return &*line_; }
			iterator &operator++()
			{
				line_ = from_->line().value();
				return *this;
			}
			void operator++(int) { ++*this; }
			friend bool operator==(const iterator &it, std::default_sentinel_t) noexcept
			{
				return !it.line_;
			}

		private:
			reader *from_ = nullptr;
			std::optional<std::string_view> line_;
		};

		explicit line_range(reader *from) noexcept : from_(from) {}
		iterator begin() const { return iterator(from_); }
		std::default_sentinel_t end() const noexcept { return {}; }

	private:
		reader *from_;
	};
	line_range lines() noexcept { return line_range(this); }

private:
	template <class T>
	int init(T &from, void *buf, std::size_t size)
	{
		if constexpr (byte_stream<T>)
			return sn_reader_init(&reader_, from.as_stream(), buf, size);
		else
			return sn_reader_init_with_fn(
				&reader_,
				[](void *arg, void *to, std::size_t room) noexcept {
					return detail::to_c(static_cast<T *>(arg)->read(to, room));
				},
				std::addressof(from), buf, size);
	}

	sn_reader reader_;
	bool cut_off_ = false;
};

} // namespace sennit

#endif
