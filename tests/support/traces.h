// SPDX-License-Identifier: MIT
//
// A trace that sn_trace_write() has written, decoded strictly: data that Perfetto would reject, or
// show as something that cannot have happened, fails the test.
#ifndef SENNIT_TESTS_SUPPORT_TRACES_H
#define SENNIT_TESTS_SUPPORT_TRACES_H

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sennit/trace.h>

#include "support/files.h"

namespace test
{

// ---- protobuf ----

struct Field {
	uint64_t number = 0, value = 0; // value: that of a varint or fixed64
	int wire = 0;
	std::string_view bytes;
};

using Fields = std::vector<Field>;

// Reads the fields of a message. Malformed data fails the test.
class Reader
{
public:
	explicit Reader(std::string_view bytes) : rest_(bytes) {}

	Fields all()
	{
		Fields fields;

		while (!rest_.empty() && ok_)
			fields.push_back(next());
		EXPECT_TRUE(ok_) << "not a protobuf message";
		return fields;
	}

private:
	uint64_t varint()
	{
		uint64_t value = 0;

		for (int shift = 0; shift < 70; shift += 7) {
			if (rest_.empty())
				break;
			auto byte = static_cast<unsigned char>(rest_[0]);
			rest_.remove_prefix(1);
			value |= static_cast<uint64_t>(byte & 0x7f) << (shift % 64);
			if (byte < 0x80)
				return value;
		}
		ok_ = false;
		return 0;
	}

	std::string_view take(uint64_t n)
	{
		if (n > rest_.size()) {
			ok_ = false;
			return {};
		}
		std::string_view bytes = rest_.substr(0, n);
		rest_.remove_prefix(n);
		return bytes;
	}

	Field next()
	{
		Field field;
		uint64_t key = varint();

		field.number = key >> 3;
		field.wire = static_cast<int>(key & 7);
		if (field.wire == 0)
			field.value = varint();
		else if (field.wire == 2)
			field.bytes = take(varint());
		else if (field.wire == 1 && take(0).empty() && rest_.size() >= 8)
			memcpy(&field.value, take(8).data(),
			       8); // all supported machines are little-endian
		else
			ok_ = false;
		return field;
	}

	std::string_view rest_;
	bool ok_ = true;
};

inline uint64_t number_in(const Fields &fields, uint64_t number, uint64_t otherwise = 0)
{
	for (const Field &field : fields)
		if (field.number == number)
			return field.value;
	return otherwise;
}

inline std::string text_in(const Fields &fields, uint64_t number)
{
	for (const Field &field : fields)
		if (field.number == number)
			return std::string(field.bytes);
	return "";
}

// ---- the trace ----

struct Event {
	uint64_t time = 0, track = 0, type = 0, from = 0, to = 0;
	int64_t counter = 0;
	std::string name;
	std::map<std::string, uint64_t> details;
};

struct Slice {
	std::string name;
	uint64_t begin, end;
	bool open = false;
};

// The events of one track.
struct Track {
	std::string name;
	uint64_t parent = 0;
	std::vector<Event> events;
	std::vector<Slice> slices;
};

enum { BEGIN = 1, END = 2, INSTANT = 3, COUNTER = 4 };

class Trace
{
public:
	explicit Trace(std::string bytes) : bytes_(std::move(bytes))
	{
		for (const Field &packet : Reader(bytes_).all()) {
			EXPECT_EQ(1u, packet.number);
			take(Reader(packet.bytes).all());
		}
		for (auto &[uuid, track] : tracks_)
			pair(track);
		for (uint64_t flow : ended_)
			EXPECT_TRUE(begun_.count(flow)) << "an arrow ends that has not begun";
	}

	// The track with that name, or whose name begins with it.
	Track of(const std::string &name) const
	{
		for (const auto &[uuid, track] : tracks_)
			if (track.name == name || track.name.rfind(name + " ", 0) == 0)
				return track;
		ADD_FAILURE() << "no track " << name;
		return {};
	}

	std::vector<Track> children_of(const std::string &name) const
	{
		std::vector<Track> found;

		for (const auto &[uuid, track] : tracks_)
			if (track.parent && tracks_.at(track.parent).name == name)
				found.push_back(track);
		return found;
	}

	// The number of slices with that name on the tracks of all tasks, or of all processors.
	size_t count(const std::string &parent, const std::string &name) const
	{
		size_t n = 0;

		for (const Track &track : children_of(parent))
			for (const Slice &slice : track.slices)
				n += slice.name == name;
		return n;
	}

	size_t instants(const std::string &name) const
	{
		size_t n = 0;

		for (const auto &[uuid, track] : tracks_)
			for (const Event &event : track.events)
				n += event.type == INSTANT && event.name == name;
		return n;
	}

	size_t arrows() const { return ended_.size(); }
	const std::set<uint64_t> &clocks() const { return clocks_; }

private:
	void take(const Fields &packet)
	{
		static const std::set<uint64_t> known = {6, 8, 10, 11, 12, 13, 59, 60};

		EXPECT_EQ(1u, number_in(packet, 10));
		for (const Field &field : packet) {
			EXPECT_TRUE(known.count(field.number)) << field.number;
			if (field.number == 12)
				intern(Reader(field.bytes).all());
			if (field.number == 6)
				take_clocks(Reader(field.bytes).all());
			if (field.number == 59)
				default_clock_ = number_in(Reader(field.bytes).all(), 58);
		}
		for (const Field &field : packet) {
			if (field.number == 60)
				describe(Reader(field.bytes).all());
			if (field.number == 11)
				take_event(number_in(packet, 8), Reader(field.bytes).all());
		}
	}

	void intern(const Fields &data)
	{
		for (const Field &field : data) {
			Fields one = Reader(field.bytes).all();
			auto &names = interned_[field.number];

			EXPECT_TRUE(names.emplace(number_in(one, 1), text_in(one, 2)).second)
				<< "sent twice: " << text_in(one, 2);
		}
	}

	void take_clocks(const Fields &snapshot)
	{
		for (const Field &field : snapshot)
			if (field.number == 1)
				clocks_.insert(number_in(Reader(field.bytes).all(), 1));
	}

	void describe(const Fields &track)
	{
		Track &now = tracks_[number_in(track, 1)];

		now.name = text_in(track, 2);
		now.parent = number_in(track, 5);
		EXPECT_TRUE(!now.parent || tracks_.count(now.parent));
	}

	std::string interned(uint64_t kind, uint64_t number)
	{
		EXPECT_TRUE(interned_[kind].count(number)) << kind << " " << number;
		return interned_[kind][number];
	}

	void take_event(uint64_t time, const Fields &fields)
	{
		Event event;

		event.time = time;
		EXPECT_EQ(3u, default_clock_);
		for (const Field &field : fields) {
			Fields inner;

			switch (field.number) {
			case 3:
				interned(1, field.value);
				break;
			case 4:
				inner = Reader(field.bytes).all();
				event.details[interned(3, number_in(inner, 1))] =
					number_in(inner, 3, number_in(inner, 4));
				break;
			case 9:
				event.type = field.value;
				break;
			case 10:
				event.name = interned(2, field.value);
				break;
			case 11:
				event.track = field.value;
				break;
			case 23:
				event.name = std::string(field.bytes);
				break;
			case 30:
				event.counter = static_cast<int64_t>(field.value);
				break;
			case 47:
				event.from = field.value;
				EXPECT_TRUE(begun_.insert(field.value).second);
				break;
			case 48:
				event.to = field.value;
				EXPECT_TRUE(ended_.insert(field.value).second);
				break;
			default:
				ADD_FAILURE() << "a field " << field.number << " of an event";
			}
		}
		ASSERT_TRUE(tracks_.count(event.track)) << "an event on no track";
		tracks_[event.track].events.push_back(event);
	}

	// Pairs events as trace_processor does: by time, and those of the same time in their order.
	static void pair(Track &track)
	{
		std::vector<Slice> open;

		std::stable_sort(track.events.begin(), track.events.end(),
				 [](const Event &a, const Event &b) { return a.time < b.time; });
		for (const Event &event : track.events) {
			if (event.type == BEGIN) {
				EXPECT_TRUE(open.empty()) << track.name << ": " << event.name
							  << " within " << open.back().name;
				open.push_back({event.name, event.time, 0});
			} else if (event.type == END) {
				ASSERT_FALSE(open.empty()) << track.name;
				open.back().end = event.time;
				track.slices.push_back(open.back());
				open.pop_back();
			} else if (event.type == COUNTER) {
				EXPECT_GE(event.counter, 0);
			}
		}
		EXPECT_TRUE(open.empty()) << track.name;
	}

	std::string bytes_;
	std::map<uint64_t, Track> tracks_;
	std::map<uint64_t, std::map<uint64_t, std::string>> interned_;
	std::set<uint64_t> begun_, ended_, clocks_;
	uint64_t default_clock_ = 0;
};

inline std::string written(int expected = 0)
{
	return written_by(sn_trace_write, expected);
}

} // namespace test

#endif
