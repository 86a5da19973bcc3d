/* SPDX-License-Identifier: MIT */
/*
 * The fields of a protobuf message, one after another, from bytes that may be anything. Nothing is
 * read outside of them, nothing is allocated, and each call takes at least one byte.
 */
#ifndef TRACE_PROTOBUF_HPP
#define TRACE_PROTOBUF_HPP

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tracing
{

enum class wire { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

struct field {
	std::uint64_t number = 0;
	wire type = wire::varint;
	std::uint64_t value = 0; /* not for bytes */
	std::string_view bytes;
};

class message
{
public:
	explicit message(std::string_view bytes) : rest_(bytes), size_(bytes.size()) {}

	/* Reads the next field. Returns false at the end, and where the bytes are no field;
	 * is_whole() distinguishes the two. */
	bool next(field &to)
	{
		if (rest_.empty() || !whole_)
			return false;
		const auto before = rest_;
		whole_ = read(to);
		if (!whole_)
			rest_ = before;
		return whole_;
	}
	bool is_whole() const { return whole_; }
	/* The size of the fields that have been read. */
	std::size_t position() const { return size_ - rest_.size(); }

private:
	bool read_varint(std::uint64_t &to)
	{
		to = 0;
		for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
			const auto byte = static_cast<unsigned char>(rest_.front());
			rest_.remove_prefix(1);
			to |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
			if (byte < 0x80)
				return true;
		}
		return false;
	}

	bool read_fixed(std::uint64_t &to, std::size_t size)
	{
		if (rest_.size() < size)
			return false;
		to = 0;
		for (std::size_t i = size; i-- > 0;)
			to = to << 8 | static_cast<unsigned char>(rest_[i]);
		rest_.remove_prefix(size);
		return true;
	}

	bool read(field &to)
	{
		std::uint64_t key = 0;
		to = {};
		if (!read_varint(key))
			return false;
		to.number = key >> 3;
		to.type = static_cast<wire>(key & 7);
		switch (to.type) {
		case wire::varint:
			return read_varint(to.value);
		case wire::fixed64:
			return read_fixed(to.value, 8);
		case wire::fixed32:
			return read_fixed(to.value, 4);
		case wire::bytes:
			if (!read_varint(to.value) || to.value > rest_.size())
				return false;
			to.bytes = rest_.substr(0, static_cast<std::size_t>(to.value));
			rest_.remove_prefix(to.bytes.size());
			return true;
		}
		return false;
	}

	std::string_view rest_;
	std::size_t size_;
	bool whole_ = true;
};

} // namespace tracing

#endif
