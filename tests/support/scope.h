// SPDX-License-Identifier: MIT
//
// A scope whose tasks are made of lambdas.
#ifndef SENNIT_TESTS_SUPPORT_SCOPE_H
#define SENNIT_TESTS_SUPPORT_SCOPE_H

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <utility>

#include "support/runtime.h"

namespace test
{

// A time so far away that no test reaches it.
constexpr int64_t forever = 3600 * second;

// Starts a callable as a task in a scope. Returns the error of sn_scope_go().
template <class F>
int go_in(sn_scope *scope, F body)
{
	auto *closure = new std::function<int()>(std::move(body));
	const int err = sn_scope_go(
		scope,
		[](void *arg) {
			auto *own = static_cast<std::function<int()> *>(arg);
			const int result = (*own)();

			delete own;
			return result;
		},
		closure);

	if (err < 0)
		delete closure;
	return err;
}

// A scope that makes the test fail if it cannot be opened, or is not closed.
class Scope
{
public:
	explicit Scope(int64_t deadline = SN_NO_DEADLINE)
	{
		EXPECT_EQ(0, sn_scope_open(&scope_, deadline));
		if (!scope_)
			abort(); // without this, nothing else in the test would make sense
	}
	explicit Scope(sn_scope *open) : scope_(open) {}
	~Scope() { EXPECT_EQ(nullptr, scope_) << "a scope was not closed"; }
	Scope(const Scope &) = delete;
	Scope &operator=(const Scope &) = delete;

	sn_scope *get() const { return scope_; }
	template <class F>
	int go(F body)
	{
		return go_in(scope_, std::move(body));
	}
	int cancel() { return sn_scope_cancel(scope_); }
	int close() { return close_until(SN_NO_DEADLINE); }
	int close_until(int64_t deadline)
	{
		const int result = sn_scope_close_until(scope_, deadline);

		scope_ = nullptr;
		return result;
	}

private:
	sn_scope *scope_ = nullptr;
};

} // namespace test

#endif
