/* SPDX-License-Identifier: MIT */
/* The contexts of TLS: what a look at their files finds is reported, also when it comes late. */
#include "base/in_time.hpp"
#include "config/tls_contexts.hpp"

#include "harness.hpp"

#include <atomic>
#include <gtest/gtest.h>
#include <latch>
#include <memory>
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

/* There is no other look that finds the same. */
TEST(TlsContexts, TellWhatALateLookHasFound)
{
	const auto slow = std::make_shared<slow_context>("slow");
	std::string before;
	std::string after;
	EXPECT_EQ(sn::run([&] {
		relay::tls_contexts all;
		all.use({slow});
		testing::internal::CaptureStderr();
		all.look();
		before = testing::internal::GetCapturedStderr();
		slow->answers.count_down();
		EXPECT_TRUE(eventually([] { return relay::calls_left_behind() == 0; }));
		testing::internal::CaptureStderr();
		all.look();
		after = testing::internal::GetCapturedStderr();
		return 0;
	}), 0);
	EXPECT_EQ(slow->looks, 2);
	EXPECT_EQ(before, "");
	EXPECT_EQ(count_of(" tls_reloaded listener=slow ", after), 1U) << after;
}

} // namespace
