/* SPDX-License-Identifier: MIT */
/* The contexts of TLS: what a look at their files finds is reported, also when it comes late, and
 * all get new keys of tickets. */
#include "base/in_time.hpp"
#include "config/tls_contexts.hpp"

#include "harness.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <gtest/gtest.h>
#include <latch>
#include <memory>
#include <new>
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>
#include <string>

using namespace harness;

namespace
{

/* A context without files. */
class context : public relay::tls_context
{
public:
	explicit context(const std::string &name)
	    : tls_context({true, name}, relay::tls_server_settings{})
	{
	}

	seen look(std::string &) override { return seen::same; }
	std::vector<relay::tls_certificate_info> certificates() const override { return {}; }
	void renew_tickets(const relay::tls_tickets &) override {}
	std::error_code accept(sn::tcp &, sn::deadline, relay::tls_facts &,
			       std::string &) const override
	{
		return {};
	}
	std::error_code connect(sn::tcp &, const std::string &, const std::string &, sn::deadline,
				std::string &) const override
	{
		return {};
	}
};

/* The first look takes longer than is waited for, and finds new files. */
class slow_context : public context
{
public:
	using context::context;

	seen look(std::string &) override
	{
		if (looks++ > 0)
			return seen::same;
		answers.wait();
		return seen::reloaded;
	}

	std::latch answers{1};
	std::atomic<int> looks{0};
};

/* Notes how many looks the other one has had at its own first one. */
class later_context : public context
{
public:
	later_context(const std::string &name, const slow_context &first)
	    : context(name), first_(first)
	{
	}

	seen look(std::string &) override
	{
		if (looks_before < 0)
			looks_before = first_.looks;
		return seen::same;
	}

	int looks_before = -1;

private:
	const slow_context &first_;
};

/* A context that has no memory for the first attempt to renew its keys. */
class ticket_context : public context
{
public:
	using context::context;

	void renew_tickets(const relay::tls_tickets &keys) override
	{
		if (keys.generation() == generation)
			return;
		if (attempts++ == 0)
			throw std::bad_alloc();
		generation = keys.generation();
	}

	std::uint64_t generation = 0;
	int attempts = 0;
};

/* Otherwise a context would make tickets with the oldest key until the next day, or with one that
 * others have forgotten. */
TEST(TlsContexts, RenewTheTicketsOfThoseThatMissedIt)
{
	const auto first = std::make_shared<ticket_context>("first");
	const auto second = std::make_shared<ticket_context>("second");
	const auto made_before = std::make_shared<ticket_context>("third");
	EXPECT_EQ(sn::run([&] {
			  relay::tls_contexts all;
			  const auto now = std::chrono::duration_cast<std::chrono::seconds>(
				  std::chrono::nanoseconds(sn_walltime()));
			  all.tickets().keys();
			  all.use({first, second});
			  EXPECT_FALSE(all.tickets().renew(now.count() - 90000));
			  all.look();
			  EXPECT_EQ(all.tickets().generation(), 1U);
			  EXPECT_EQ(first->attempts, 1);
			  EXPECT_EQ(second->attempts, 1) << "also after the first has thrown";
			  all.use({first, second, made_before});
			  all.look();
			  all.look();
			  all.look();
			  return 0;
		  }),
		  0);
	for (const auto &each : {first, second, made_before}) {
		EXPECT_EQ(each->generation, 1U) << each->owner().name;
		EXPECT_EQ(each->attempts, 2) << each->owner().name;
	}
}

/* Looks once, while the context does not answer in time, and again after it has. Returns what was
 * reported. use: called before the second look. */
template <class Use>
std::string reports_of(slow_context &slow, relay::tls_contexts &all, const Use &use)
{
	testing::internal::CaptureStderr();
	all.look();
	EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
	use();
	slow.answers.count_down();
	EXPECT_TRUE(eventually([] { return relay::calls_left_behind() == 0; }));
	testing::internal::CaptureStderr();
	all.look();
	return testing::internal::GetCapturedStderr();
}

/* There is no other look that finds the same. And one that is late each time does not keep the next
 * one from its turn. */
TEST(TlsContexts, TellWhatALateLookHasFound)
{
	const auto slow = std::make_shared<slow_context>("slow");
	const auto next = std::make_shared<later_context>("next", *slow);
	std::string told;
	EXPECT_EQ(sn::run([&] {
			  relay::tls_contexts all;
			  all.use({slow, next});
			  told = reports_of(*slow, all, [] {});
			  return 0;
		  }),
		  0);
	EXPECT_EQ(slow->looks, 2);
	EXPECT_EQ(next->looks_before, 1);
	EXPECT_EQ(count_of(" tls_reloaded listener=slow ", told), 1U) << told;
}

TEST(TlsContexts, SayNothingOfAContextThatWasReplaced)
{
	const auto slow = std::make_shared<slow_context>("slow");
	const auto next = std::make_shared<context>("slow");
	std::string told;
	EXPECT_EQ(sn::run([&] {
			  relay::tls_contexts all;
			  all.use({slow});
			  told = reports_of(*slow, all, [&] { all.use({next}); });
			  return 0;
		  }),
		  0);
	EXPECT_EQ(told, "");
}

} // namespace
