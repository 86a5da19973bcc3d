/* SPDX-License-Identifier: MIT */
/*
 * A trace of the runtime in a form that can be searched: what each task did, stay after stay, what
 * has woken it, and what each processor ran. Times are since the first event.
 *
 * A stay is one thing that a task did: it ran, waited for a processor, was parked, or was in
 * foreign code without a processor. The stays of a task do not overlap; a time of which there is no
 * record is a gap between two stays. Tasks, processors and wake-ups are referred to by their
 * indices.
 */
#ifndef TRACE_TRACE_HPP
#define TRACE_TRACE_HPP

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tracing
{

inline constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

enum class state : std::uint8_t { running, waiting, parked, away };

struct stay {
	std::int64_t begin = 0;
	std::int64_t end = 0;
	std::uint32_t task = none;
	std::uint32_t name = 0;         /* what it was parked for */
	std::uint32_t processor = none; /* on which it ran, or ran next */
	std::uint32_t wake = none;      /* ran or waited: the wake-up that ended the park before */
	std::uint32_t by = none;        /* waited: the task that has woken it */
	state is = state::running;

	std::int64_t length() const { return end - begin; }
};

/* A wake-up, or a spawn. */
struct wake {
	std::int64_t time = 0;
	std::uint32_t by = none;   /* a task */
	std::uint32_t on = none;   /* by == none: the waking processor, or other threads */
	std::uint32_t task = none; /* which was woken */
	bool is_spawn = false;
	std::string_view cause; /* by == none: "timers", "network", or "" if that is not known */
};

/* An event that the program has recorded. */
struct mark {
	std::int64_t time = 0;
	std::uint32_t task = none; /* none: of a thread without a processor */
	std::uint32_t name = 0;
	std::int64_t value = 0;
};

/* Something that a processor did, or that was done to it. */
struct incident {
	enum class kind : std::uint8_t { steal, timers, network, revoked, lent };

	std::int64_t time = 0;
	kind what = kind::steal;
	std::uint64_t number = 0;  /* of the other processor, of timers, of tasks */
	std::uint32_t task = none; /* whose processor it was */
};

/* What a processor ran. */
struct turn {
	std::int64_t begin = 0;
	std::int64_t end = 0;
	std::uint32_t task = none; /* none: it was idle */
};

struct task {
	std::uint64_t id = 0;
	std::string_view name;  /* as in the trace, with the id */
	std::string_view group; /* the name without the id: what similar tasks share */
	std::size_t first = 0;  /* of its stays */
	std::size_t count = 0;
};

struct processor {
	std::string_view name;
	std::uint64_t number = 0;
	std::vector<turn> turns;
	std::vector<incident> incidents;
	std::int64_t begin = 0; /* where its records begin */
	bool is_real = true;    /* false: stands for the threads without a processor */
};

struct trace {
	std::vector<std::string_view> names;
	std::vector<task> tasks;
	std::vector<stay> stays; /* of all tasks, each one's in order */
	std::vector<wake> wakes; /* in order */
	std::vector<mark> marks; /* in order */
	std::vector<processor> processors;
	std::string_view process;
	std::uint64_t pid = 0;
	std::int64_t begin = 0; /* what is covered; 0 unless it was limited */
	std::int64_t whole = 0; /* from then on the records of all processors are there */
	std::int64_t end = 0;
	std::int64_t real_time = 0; /* when time 0 was, since 1970; 0: not known */
	std::vector<std::string> warnings;

	std::span<const stay> of(std::uint32_t index) const
	{
		return std::span(stays).subspan(tasks[index].first, tasks[index].count);
	}
	std::string_view reason(const stay &one) const { return names[one.name]; }
};

/*
 * Reads a trace, which refers to the bytes from then on. Throws not_a_trace. A trace that is cut
 * short or damaged is read as far as possible, and has warnings.
 */
struct not_a_trace {
	std::string why;
};
trace read_trace(std::string_view bytes);

/* Leaves out everything outside of the times, and shortens what is partly inside. */
void limit(trace &to, std::int64_t from, std::int64_t until);

/*
 * Leaves out waits and parks that began before the trace was whole. They may be wrong, because the
 * records of a processor that ended them may have been overwritten.
 */
void forget_what_is_uncertain(trace &in);

} // namespace tracing

#endif
