// SPDX-License-Identifier: MIT
//
// A trace that is made by hand, in the format that the runtime writes (src/debug/perfetto.c).
// Times are in microseconds since the trace's first event, which is made with the trace.
#ifndef SENNIT_TESTS_TRACE_MADE_HPP
#define SENNIT_TESTS_TRACE_MADE_HPP

#include <cstdint>
#include <map>
#include <string>

namespace test
{

class Made
{
public:
	explicit Made(int processors = 2)
	{
		field(6, message({{1, clock(3, 1000000000)}, {1, clock(1, 1700000000000000000)}}));
		track(1, 0, "", process());
		track(3, 1, "processors", "");
		track(2, 1, "tasks", "");
		for (int i = 0; i < processors; i++)
			track(on(i), 3, "processor " + std::to_string(i), "");
		track(threads, 3, "threads without a processor", "");
		for (uint64_t i = 1; i <= 3; i++)
			intern(1, i, i == 1 ? "task" : i == 2 ? "processor" : "user");
		const char *details[] = {"task",       "processor", "woken_by",
					 "spawned_by", "count",     "value"};
		for (uint64_t i = 0; i < 6; i++)
			intern(3, i + 1, details[i]);
		begin(on(0), 0, "idle");
		end(on(0), 0);
	}

	// name: without the number, which is appended.
	void task(uint64_t id, const std::string &name)
	{
		names_[id] = name.find(" of ") == std::string::npos
				     ? name + " " + std::to_string(id)
				     : name;
		track(of(id), 2, names_[id], "");
	}

	// flow: identifies the wake-up that the turn comes from.
	void run(uint64_t id, int processor, int64_t from, int64_t to, uint64_t flow = 0)
	{
		begin(of(id), from, "running", 2, static_cast<uint64_t>(processor), 48, flow);
		begin(on(processor), from, names_[id]);
		end(of(id), to);
		end(on(processor), to);
	}
	void wait(uint64_t id, int64_t from, int64_t to, uint64_t by = 0)
	{
		begin(of(id), from, "waits for a processor", by ? 3 : 0, by);
		end(of(id), to);
	}
	void park(uint64_t id, int64_t from, int64_t to, const std::string &reason)
	{
		begin(of(id), from, reason);
		end(of(id), to);
	}
	void away(uint64_t id, int64_t from, int64_t to)
	{
		park(id, from, to, "in foreign code without a processor");
	}
	void wake(uint64_t by, int64_t at, uint64_t id, uint64_t flow, const char *how = "wakes")
	{
		instant(of(by), at, how, 1, id, 1, flow);
	}
	void wake_on(int processor, int64_t at, uint64_t id, uint64_t flow,
		     const char *how = "wakes")
	{
		instant(processor < 0 ? threads : on(processor), at, how, 1, id, 1, flow);
	}
	// what: "timers", "network" or "steals"; "processor revoked" is an incident of a task.
	void incident(int processor, int64_t at, const std::string &what, uint64_t number)
	{
		instant(on(processor), at, what, what[0] == 'p' ? 1 : 5, number, 2, 0);
	}
	void event(uint64_t id, int64_t at, const std::string &name, int64_t value)
	{
		instant(of(id), at, name, 6, static_cast<uint64_t>(value), 3, 0);
	}
	// A packet with the given contents.
	void field(uint64_t number, const std::string &inner)
	{
		packet(bytes_field(number, inner));
	}

	const std::string &bytes() const { return bytes_; }

	static std::string varint(uint64_t n)
	{
		std::string text;

		for (; n >= 0x80; n >>= 7)
			text += static_cast<char>(n | 0x80);
		return text + static_cast<char>(n);
	}
	static std::string number_field(uint64_t number, uint64_t value)
	{
		return varint(number << 3) + varint(value);
	}
	static std::string bytes_field(uint64_t number, const std::string &inner)
	{
		return varint(number << 3 | 2) + varint(inner.size()) + inner;
	}

private:
	static constexpr uint64_t threads = 999;
	static constexpr int64_t start = 500000000; // ns

	static uint64_t on(int processor) { return 16 + static_cast<uint64_t>(processor); }
	static uint64_t of(uint64_t id) { return (uint64_t{1} << 48) + id; }

	static std::string message(std::multimap<uint64_t, std::string> fields)
	{
		std::string all;

		for (const auto &[number, inner] : fields)
			all += bytes_field(number, inner);
		return all;
	}
	static std::string clock(uint64_t id, uint64_t time)
	{
		return number_field(1, id) + number_field(2, time);
	}
	static std::string process() { return number_field(1, 4321) + bytes_field(6, "server"); }

	void packet(const std::string &inner)
	{
		bytes_ += bytes_field(1, inner + number_field(10, 1) + number_field(13, 2));
	}
	void track(uint64_t uuid, uint64_t parent, const std::string &name,
		   const std::string &of_process)
	{
		std::string inner = number_field(1, uuid);

		if (parent)
			inner += number_field(5, parent);
		inner += of_process.empty() ? bytes_field(2, name) : bytes_field(3, of_process);
		field(60, inner);
	}
	void intern(uint64_t kind, uint64_t number, const std::string &text)
	{
		field(12, bytes_field(kind, number_field(1, number) + bytes_field(2, text)));
	}
	// The first use of a name sends the name, in the same packet or in an earlier one.
	std::string name_field(const std::string &name)
	{
		const auto [at, is_new] = numbers_.emplace(name, numbers_.size() + 1);

		if (is_new && at->second % 5 == 0)
			// every fifth name is written out in each packet
			return bytes_field(23, name);
		if (is_new)
			intern(2, at->second, name);
		return at->second % 5 == 0 ? bytes_field(23, name) : number_field(10, at->second);
	}
	void send(uint64_t track, int64_t at, uint64_t type, const std::string &more)
	{
		packet(number_field(8, static_cast<uint64_t>(start + at * 1000)) +
		       bytes_field(11, number_field(9, type) + number_field(11, track) + more));
	}
	static std::string detail_field(uint64_t kind, uint64_t value)
	{
		if (!kind)
			return "";
		return bytes_field(4,
				   number_field(1, kind) + number_field(kind == 6 ? 4 : 3, value));
	}
	static std::string flow_field(uint64_t number, uint64_t flow)
	{
		std::string text = varint(number << 3 | 1);

		if (!flow)
			return "";
		for (int i = 0; i < 8; i++)
			text += static_cast<char>(flow >> 8 * i & 0xff);
		return text;
	}
	void begin(uint64_t track, int64_t at, const std::string &name, uint64_t kind = 0,
		   uint64_t value = 0, uint64_t flow_number = 0, uint64_t flow = 0)
	{
		send(track, at, 1,
		     name_field(name) + number_field(3, 1) + detail_field(kind, value) +
			     flow_field(flow_number, flow));
	}
	void end(uint64_t track, int64_t at) { send(track, at, 2, ""); }
	void instant(uint64_t track, int64_t at, const std::string &name, uint64_t kind,
		     uint64_t value, uint64_t category, uint64_t flow)
	{
		send(track, at, 3,
		     name_field(name) + number_field(3, category) + detail_field(kind, value) +
			     flow_field(47, flow));
	}

	std::string bytes_;
	std::map<uint64_t, std::string> names_; // of tasks
	std::map<std::string, uint64_t> numbers_;
};

// A request of "session 17" that took 12 ms: the network wakes it, it waits for a processor behind
// "hog 9", wants a mutex that "db 5" has, and is served.
//
//   us      session 17                        db 5                     hog 9
//   0                                         runs on 1
//   1000    woken by the network; waits                                runs on 0
//   9000    runs on 0
//   9500    parked for a mutex                (has it; runs until 10500)
//   10500                                     wakes 17, parks
//   10500   waits, for 500
//   11000   runs on 0; at 12900 the event; until 13000
inline Made slow_request()
{
	Made made;

	made.task(17, "session");
	made.task(5, "db");
	made.task(9, "hog");
	made.run(9, 0, 900, 8990);
	made.wait(9, 8990, 14000);
	made.incident(1, 990, "network", 1);
	made.park(17, 500, 1000, "a descriptor to be readable");
	made.wake_on(1, 1000, 17, 1);
	made.wait(17, 1000, 9000);
	made.run(5, 1, 1100, 10500);
	made.run(17, 0, 9000, 9500, 1);
	made.park(17, 9500, 10500, "a mutex");
	made.wake(5, 10500, 17, 2);
	made.wait(17, 10500, 11000, 5);
	made.park(5, 10500, 14000, "a time");
	made.run(17, 0, 11000, 13000, 2);
	made.event(17, 12900, "request served", 200);
	made.park(17, 13000, 14000, "a descriptor to be readable");
	return made;
}

} // namespace test

#endif
