/* SPDX-License-Identifier: MIT */
#include "packets.hpp"

#include "protobuf.hpp"

#include <array>
#include <optional>
#include <unordered_map>

namespace tracing
{
namespace
{

/* The numbers of fields in perfetto_trace.proto, by message. */
enum : std::uint64_t {
	trace_packet = 1,

	packet_clock_snapshot = 6,
	packet_timestamp = 8,
	packet_track_event = 11,
	packet_interned_data = 12,
	packet_track_descriptor = 60,

	snapshot_clock = 1,
	clock_id = 1,
	clock_timestamp = 2,

	interned_category = 1,
	interned_name = 2,
	interned_detail = 3,
	interned_number = 1,
	interned_text = 2,

	track_uuid = 1,
	track_name = 2,
	track_process = 3,
	track_parent = 5,
	process_pid = 1,
	process_name = 6,

	event_category = 3,
	event_detail = 4,
	event_of_type = 9,
	event_name_number = 10,
	event_track = 11,
	event_name = 23,
	event_flow = 47,
	event_last_flow = 48,
	detail_name_number = 1,
	detail_uint = 3,
	detail_int = 4,
};

constexpr std::uint64_t perfetto_realtime = 1;
constexpr std::uint64_t perfetto_monotonic = 3;

class reader
{
public:
	explicit reader(std::string_view bytes) : bytes_(bytes) { intern(""); }

	packets read()
	{
		message all(bytes_);
		field each;

		while (all.next(each) && each.number == trace_packet && each.type == wire::bytes) {
			to_.count++;
			to_.damaged += !read_packet(each.bytes);
			to_.read = all.position();
		}
		return std::move(to_);
	}

private:
	using numbered = std::unordered_map<std::uint64_t, std::uint32_t, mixed>;

	std::uint32_t intern(std::string_view text)
	{
		const auto [at, is_new] =
			names_.emplace(text, static_cast<std::uint32_t>(to_.names.size()));
		if (is_new)
			to_.names.push_back(text);
		return at->second;
	}

	bool read_packet(std::string_view bytes)
	{
		std::optional<std::uint64_t> time;
		std::string_view event_bytes;
		std::string_view track_bytes;
		bool has_event = false;
		bool good = true;
		message packet(bytes);

		/* Names are read before the events that use them, whatever the order of the
		 * fields. */
		for (field each; packet.next(each);) {
			switch (each.number) {
			case packet_timestamp:
				time = each.value;
				break;
			case packet_interned_data:
				good &= read_interned(each.bytes);
				break;
			case packet_clock_snapshot:
				good &= read_clocks(each.bytes);
				break;
			case packet_track_descriptor:
				track_bytes = each.bytes;
				break;
			case packet_track_event:
				event_bytes = each.bytes;
				has_event = true;
				break;
			default:
				break;
			}
		}
		if (!track_bytes.empty())
			good &= read_track(track_bytes);
		if (has_event)
			good &= time && *time < static_cast<std::uint64_t>(most_time) &&
				read_event(static_cast<std::int64_t>(*time), event_bytes);
		return good && packet.is_whole();
	}

	bool read_interned(std::string_view bytes)
	{
		message data(bytes);
		bool good = true;

		for (field kind; data.next(kind);) {
			std::uint64_t number = 0;
			std::string_view text;
			message one(kind.bytes);
			for (field each; one.next(each);) {
				if (each.number == interned_number)
					number = each.value;
				else if (each.number == interned_text)
					text = each.bytes;
			}
			good &= one.is_whole();
			if (kind.number == interned_name)
				numbers_[number] = intern(text);
			else if (kind.number == interned_category && text == "user")
				user_category_ = number;
			else if (kind.number == interned_detail)
				note_detail(number, text);
		}
		return good && data.is_whole();
	}

	void note_detail(std::uint64_t number, std::string_view text)
	{
		static constexpr std::array<std::string_view, 7> details = {
			"", "task", "processor", "woken_by", "spawned_by", "count", "value"};

		for (std::size_t i = 1; i < details.size(); i++)
			if (details[i] == text)
				details_[number] = static_cast<detail>(i);
	}

	bool read_clocks(std::string_view bytes)
	{
		message snapshot(bytes);

		for (field clock; snapshot.next(clock);) {
			std::uint64_t id = 0;
			std::uint64_t time = 0;
			message one(clock.bytes);
			if (clock.number != snapshot_clock)
				continue;
			for (field each; one.next(each);) {
				if (each.number == clock_id)
					id = each.value;
				else if (each.number == clock_timestamp)
					time = each.value;
			}
			if (time > INT64_MAX)
				return false;
			if (id == perfetto_monotonic)
				to_.clock = static_cast<std::int64_t>(time);
			else if (id == perfetto_realtime)
				to_.real_time = static_cast<std::int64_t>(time);
		}
		return snapshot.is_whole();
	}

	bool read_track(std::string_view bytes)
	{
		track made;
		message descriptor(bytes);

		for (field each; descriptor.next(each);) {
			if (each.number == track_uuid)
				made.uuid = each.value;
			else if (each.number == track_parent)
				made.parent = each.value;
			else if (each.number == track_name)
				made.name = intern(each.bytes);
			else if (each.number == track_process)
				read_process(each.bytes);
		}
		const auto [at, is_new] =
			tracks_.emplace(made.uuid, static_cast<std::uint32_t>(to_.tracks.size()));
		if (is_new)
			to_.tracks.push_back(made);
		return is_new && descriptor.is_whole();
	}

	void read_process(std::string_view bytes)
	{
		message process(bytes);

		for (field each; process.next(each);) {
			if (each.number == process_pid)
				to_.pid = each.value;
			else if (each.number == process_name)
				to_.process = each.bytes;
		}
	}

	void read_detail(std::string_view bytes, event &made)
	{
		std::uint64_t number = 0;
		std::uint64_t value = 0;
		message one(bytes);

		for (field each; one.next(each);) {
			if (each.number == detail_name_number)
				number = each.value;
			else if (each.number == detail_uint || each.number == detail_int)
				value = each.value;
		}
		if (const auto at = details_.find(number); at != details_.end()) {
			made.what = at->second;
			made.number = value;
		}
	}

	/* Reads an event. Counters are read, and left out. */
	bool read_event(std::int64_t time, std::string_view bytes)
	{
		constexpr std::uint64_t counter = 4;
		event made;
		std::uint64_t type = 0;
		std::optional<std::uint64_t> uuid;
		message fields(bytes);

		made.time = time;
		for (field each; fields.next(each);) {
			switch (each.number) {
			case event_category:
				made.is_users = each.value != 0 && each.value == user_category_;
				break;
			case event_detail:
				read_detail(each.bytes, made);
				break;
			case event_of_type:
				type = each.value;
				break;
			case event_name_number: {
				const auto at = numbers_.find(each.value);
				if (at == numbers_.end())
					return false;
				made.name = at->second;
				break;
			}
			case event_name:
				made.name = intern(each.bytes);
				break;
			case event_track:
				uuid = each.value;
				break;
			case event_flow:
			case event_last_flow:
				made.flow = each.value;
				break;
			default:
				break;
			}
		}
		if (!fields.is_whole() || !uuid || type < 1 || type > counter)
			return false;
		if (type == counter)
			return true;
		const auto at = tracks_.find(*uuid);
		if (at == tracks_.end())
			return false;
		made.track = at->second;
		made.type = static_cast<event_type>(type);
		to_.events.push_back(made);
		return true;
	}

	std::string_view bytes_;
	packets to_;
	std::unordered_map<std::string_view, std::uint32_t> names_;
	numbered numbers_; /* to names */
	numbered tracks_;  /* uuids to tracks */
	std::unordered_map<std::uint64_t, detail, mixed> details_;
	std::uint64_t user_category_ = 0;
};

} // namespace

packets read_packets(std::string_view bytes)
{
	return reader(bytes).read();
}

} // namespace tracing
