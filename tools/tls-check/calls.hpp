/* SPDX-License-Identifier: MIT */
/*
 * What is known of functions by their names: which ones return something that belongs to the
 * calling thread, in which ones a task may park, and in which ones it certainly does not.
 */
#ifndef TLS_CHECK_CALLS_HPP
#define TLS_CHECK_CALLS_HPP

#include <string>
#include <string_view>
#include <vector>

namespace checking
{

/* Something that belongs to a thread, and was found by the current thread. */
enum class kind {
	none,
	error,      /* errno */
	host_error, /* h_errno */
	variable,   /* a thread-local variable */
	thread,     /* the thread pointer, from which the others are computed */
	self,       /* pthread_self() */
	characters, /* the tables of <ctype.h> */
};

/* "the address of errno" */
std::string text_of(kind what);
/* "errno", for programs that read the output */
std::string word_of(kind what);

/* What a call of the function returns; kind::none for all others. */
kind found_by(std::string_view name);

enum class parking {
	yes,
	no,
	unknown,
};

/*
 * imported: the function is not in the file itself. The hooks replace only imported functions, so a
 * read() that the file defines is judged by its code.
 */
parking known_parking(std::string_view name, bool imported);

/* Whether the function never returns. */
bool never_returns(std::string_view name);

} // namespace checking

#endif
