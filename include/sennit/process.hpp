/* SPDX-License-Identifier: MIT */
/*
 * Programs that tasks start (process.h).
 *
 *	auto done = sn::run_program({"git", "status"}, {}, {.until = 5s}).value();
 *
 *	namespace io = sn::stdio;
 *	auto sorter = sn::process::start({"sort"}, {.in = io::piped, .out = io::piped}).value();
 *
 * Threads outside the runtime and signal handlers: what the C headers say of the calls underneath.
 */
#ifndef SENNIT_PROCESS_HPP
#define SENNIT_PROCESS_HPP

#include <sennit/process.h>
#include <sennit/stream.hpp>
#include <sennit/time.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sennit
{

/* What a standard descriptor of a program is: sn::stdio::piped and so on. */
namespace stdio
{

/* This process's own. */
inline constexpr sn_process_stdio inherited{SN_PROCESS_INHERIT, 0};
/* /dev/null. */
inline constexpr sn_process_stdio discarded{SN_PROCESS_NULL, 0};
/* A pipe, whose other end is process::stream(). */
inline constexpr sn_process_stdio piped{SN_PROCESS_PIPE, 0};
/* A terminal, whose other side is process::stream(). */
inline constexpr sn_process_stdio terminal{SN_PROCESS_TERMINAL, 0};
/* For the standard error output: the same as the standard output. */
inline constexpr sn_process_stdio as_stdout{SN_PROCESS_STDOUT, 0};
/* A descriptor of this process, which stays the caller's. */
inline constexpr sn_process_stdio descriptor(int fd) noexcept
{
	return {SN_PROCESS_DESCRIPTOR, fd};
}

} // namespace stdio

/* How a program should be started; as struct sn_process_attr. */
struct process_attr {
	std::string program = {};   /* empty: the first argument */
	std::string directory = {}; /* empty: this process's */
	std::optional<std::vector<std::string>> environment = {};
	std::vector<std::string> changes = {};
	sn_process_stdio in = stdio::inherited, out = stdio::inherited, err = stdio::inherited;
	std::vector<sn_process_descriptor> descriptors = {};
	std::vector<sn_process_limit> limits = {};
	std::uint32_t flags = 0;
	std::chrono::nanoseconds grace{0};
	std::uint16_t rows = 0, columns = 0;
};

namespace detail
{

/* Whether no string that a program is to get would be cut. */
inline bool lack_zeros(const std::vector<std::string> &strings) noexcept
{
	return std::all_of(strings.begin(), strings.end(),
			   [](const std::string &string) { return lacks_zeros(string); });
}
inline bool lack_zeros(const std::vector<std::string> &arguments, const process_attr &attr) noexcept
{
	return lack_zeros(arguments) && lacks_zeros(attr.program, attr.directory) &&
	       (!attr.environment || lack_zeros(*attr.environment)) && lack_zeros(attr.changes);
}

/* Strings as a list that ends with NULL. They must stay unchanged while the result is used. */
inline std::vector<const char *> pointers(const std::vector<std::string> &strings)
{
	std::vector<const char *> list;
	list.reserve(strings.size() + 1);
	for (const std::string &string : strings)
		list.push_back(string.c_str());
	list.push_back(nullptr);
	return list;
}

/* The attributes for the C call. Valid as long as this object and the process_attr exist. */
struct c_process_attr {
	explicit c_process_attr(const process_attr &from)
	    : environment(from.environment ? pointers(*from.environment)
					   : std::vector<const char *>()),
	      changes(pointers(from.changes))
	{
		attr.program = from.program.empty() ? nullptr : from.program.c_str();
		attr.directory = from.directory.empty() ? nullptr : from.directory.c_str();
		attr.environment = from.environment ? environment.data() : nullptr;
		attr.changes = changes.data();
		attr.in = from.in;
		attr.out = from.out;
		attr.err = from.err;
		attr.descriptors = from.descriptors.data();
		attr.descriptor_count = from.descriptors.size();
		attr.limits = from.limits.data();
		attr.limit_count = from.limits.size();
		attr.flags = from.flags;
		attr.grace = from.grace.count();
		attr.rows = from.rows;
		attr.columns = from.columns;
	}
	c_process_attr(const c_process_attr &) = delete;
	c_process_attr &operator=(const c_process_attr &) = delete;

	std::vector<const char *> environment, changes;
	sn_process_attr attr{};
};

inline void close_process(sn_process *process) noexcept
{
	sn_process_close(process);
}

} // namespace detail

/*
 * A program that was started. Movable. The destructor gives it back: it closes the pipes, and the
 * program continues (sn_process_close()).
 */
class process : public unique_handle<sn_process, detail::close_process>
{
public:
	using unique_handle::unique_handle;

	/* Starts a program. arguments: from argv[0] on. Blocks the thread until the program has
	 * been loaded. */
	static result<process> start(const std::vector<std::string> &arguments,
				     const process_attr &attr = {})
	{
		if (!detail::lack_zeros(arguments, attr))
			return unexpected(detail::zero_inside);
		const detail::c_process_attr c_attr(attr);
		const std::vector<const char *> argv = detail::pointers(arguments);
		return detail::made<process>([&](sn_process **started) {
			return sn_process_start(started, argv.data(), &c_attr.attr);
		});
	}

	/* Waits until the program has ended, and returns how; as sn_process_wait(). May park. */
	result<sn_process_status> wait(time_limit until = no_deadline)
	{
		sn_process_status status{};
		const int err = sn_process_wait(get(), &status, detail::to_ns(until));
		if (err < 0)
			return detail::failed(err);
		return status;
	}

	result<void> kill(int signum)
	{
		return detail::nothing_or_error(sn_process_kill(get(), signum));
	}
	result<void> kill_group(int signum)
	{
		return detail::nothing_or_error(sn_process_kill_group(get(), signum));
	}

	pid_t pid() const noexcept { return sn_process_pid(get()); }

	/* This process's end of a pipe or terminal (0, 1, 2), for the calls of stream.h; it belongs
	 * to this object. NULL when there is none. */
	sn_stream *stream(int number) const noexcept { return sn_process_stream(get(), number); }

	/* Gives the program the end of its input. */
	void close_input() noexcept { sn_stream_close(stream(0)); }
};

/* What a program has written, and how it ended. */
struct program_result {
	std::string out, err;
	sn_process_status status{};

	/* Whether the program has exited with 0. */
	bool succeeded() const noexcept { return status.signum == 0 && status.exit_code == 0; }
};

/* What run_program() gives the program, and when it gives up. */
struct program_input {
	std::string_view input = {};
	std::size_t limit = 0; /* of either output; 0: none */
	time_limit until = no_deadline;
};

/* Runs a program from beginning to end; as sn_process_output(). What was collected before an error
 * is discarded. May park. */
inline result<program_result> run_program(const std::vector<std::string> &arguments,
					  const process_attr &attr = {},
					  const program_input &with = {})
{
	if (!detail::lack_zeros(arguments, attr))
		return unexpected(detail::zero_inside);
	const detail::c_process_attr c_attr(attr);
	const std::vector<const char *> argv = detail::pointers(arguments);
	struct freed : sn_process_result {
		freed() : sn_process_result{} {}
		freed(const freed &) = delete;
		freed &operator=(const freed &) = delete;
		~freed() { sn_process_result_free(this); }
	} collected;
	const int err =
		sn_process_output(&collected, argv.data(), with.input.data(), with.input.size(),
				  with.limit, &c_attr.attr, detail::to_ns(with.until));
	if (err < 0)
		return detail::failed(err);
	return program_result{{collected.out ? collected.out : "", collected.out_size},
			      {collected.err ? collected.err : "", collected.err_size},
			      collected.status};
}

} // namespace sennit

#endif
