/* SPDX-License-Identifier: MIT */
/*
 * A trace of the runtime, as one can ask it: what each task did, span after span, what has woken
 * it, and what each processor ran. Times are since the first event.
 *
 * A span is one thing that a task did: it ran, waited for a processor, was parked, or was in
 * foreign code without a processor. The spans of a task do not overlap, and those that a record
 * says nothing about have a gap between them. Tasks, processors and wake-ups are named by their
 * indices here.
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
	std::uint32_t name = 0;         /* of what it was parked for */
	std::uint32_t processor = none; /* on which it ran, or ran then */
	std::uint32_t wake = none; /* what has ended the park, of those that ran or waited then */
	std::uint32_t by = none;   /* the task that has woken it, of those that waited */
	state is = state::running;

	std::int64_t length() const { return end - begin; }
};

/* A wake-up, or a spawn. */
struct wake {
	std::int64_t time = 0;
	std::uint32_t by = none;   /* a task */
	std::uint32_t on = none;   /* by == none: the processor, or that of the other threads */
	std::uint32_t task = none; /* which was woken */
	bool is_spawn = false;
	std::string_view cause; /* by == none: "timers", "network", or "" if that is not known */
};

/* An event of the program's. */
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
	std::string_view name;  /* as the trace has it, with the id */
	std::string_view group; /* the name without the id: what similar tasks share */
	std::size_t first = 0;  /* of its stays */
	std::size_t count = 0;
};

struct processor {
	std::string_view name;
	std::uint64_t number = 0;
	std::vector<turn> turns;
	std::vector<incident> incidents;
	std::int64_t begin = 0; /* of what is recorded of it */
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
	std::int64_t whole = 0; /* from then on there is what all processors did */
	std::int64_t end = 0;
	std::int64_t real_time = 0; /* of the time 0, since 1970; 0: not known */
	std::vector<std::string> warnings;

	std::span<const stay> of(std::uint32_t index) const
	{
		return std::span(stays).subspan(tasks[index].first, tasks[index].count);
	}
	std::string_view reason(const stay &one) const { return names[one.name]; }
};

/*
 * Reads a trace, which refers to the bytes from then on. Throws not_a_trace. What is cut short or
 * damaged gives what there is, and warnings.
 */
struct not_a_trace {
	std::string why;
};
trace read_trace(std::string_view bytes);

/* Leaves out what was before or after, and shortens what was partly. */
void limit(trace &to, std::int64_t from, std::int64_t until);

/*
 * Leaves out what may be wrong, because a processor may have done something about it whose records
 * were overwritten: waits and parks that had begun before the trace was whole.
 */
void forget_what_is_uncertain(trace &in);

} // namespace tracing

#endif
