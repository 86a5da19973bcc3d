// SPDX-License-Identifier: MIT
//
// The flight recorder's rings: a copy has whole records without gaps, whatever the writer does
// during the copy, and times are as close together as the records are far apart.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>

#include "support/records.h"
#include "support/runtime.h"

namespace
{

constexpr size_t ring_records = 4096 / TEST_RECORD_BYTES; // of SENNIT_RECORD=4K

uint64_t mixed(uint64_t number)
{
	return number * 0x9e3779b97f4a7c15 ^ number >> 7;
}

std::vector<struct test_record> copied(int ring)
{
	int rings;
	std::vector<struct test_record> records(test_records_size(&rings));

	EXPECT_GT(rings, ring);
	records.resize(test_records_copy(ring, records.data()));
	return records;
}

class Record : public testing::Test
{
protected:
	void SetUp() override { ASSERT_EQ(0, test_records_begin(1)); }

	test::Environment size_{"SENNIT_RECORD", "4K"};
};

TEST_F(Record, KeepsTheLastRecords)
{
	EXPECT_TRUE(copied(0).empty());
	for (uint64_t i = 1; i <= 3 * ring_records + 5; i++) {
		test_record_put(0, i << 16, mixed(i));
		auto records = copied(0);
		// The place of the oldest record may be about to be overwritten.
		ASSERT_EQ(i < ring_records ? i : ring_records - 1, records.size());
		ASSERT_EQ(i << 16, records.back().what);
		ASSERT_EQ((i - records.size() + 1) << 16, records.front().what);
	}
	EXPECT_TRUE(copied(1).empty());
}

TEST_F(Record, CopiesAreWholeWhileTheRingIsWritten)
{
	std::atomic<bool> stop{false};
	std::atomic<uint64_t> written{0};
	std::thread writer([&] {
		for (uint64_t i = 1; !stop; i++) {
			test_record_put(0, i << 16, mixed(i));
			written.store(i, std::memory_order_relaxed);
			// In bursts, so that some copies see a ring that does not change.
			if (i % 1000 == 0)
				std::this_thread::yield();
		}
	});
	const size_t enough = static_cast<size_t>(test::scaled(4000)) * ring_records;
	size_t seen = 0;
	int64_t end = sn_now() + test::patience;

	while (sn_now() < end && (seen < enough || written < 50 * ring_records)) {
		auto records = copied(0);
		seen += records.size();
		for (size_t i = 0; i < records.size(); i++) {
			uint64_t number = records[i].what >> 16;
			ASSERT_EQ(mixed(number), records[i].detail);
			ASSERT_EQ((records[0].what >> 16) + i, number);
		}
	}
	stop = true;
	writer.join();
	EXPECT_GE(seen, ring_records);
}

TEST_F(Record, LongTurnsHaveTimesAndShortOnesShareThem)
{
	int64_t now = 1000000;
	auto turns = [&](int n, int64_t ns) {
		int times = 0;

		for (int i = 0; i < n; i++) {
			now += ns;
			times += test_record_turn(0, now);
		}
		return times;
	};

	// Where reading the clock is a system call, as under emulators, it is read less often.
	const bool slow = sn_clock_source(SN_CLOCK_CALL_TICKS_NOW) == SN_CLOCK_SOURCE_SYSCALL;
	const int n = slow ? 1600 : 400;
	const int64_t long_ns = slow ? 100000 : 5000;
	EXPECT_EQ(n, turns(n, long_ns));
	EXPECT_LT(turns(320, 50), 40);
	// Of the first of these turns, the recorder does not know yet that they are long.
	EXPECT_GT(turns(n, long_ns), n * 6 / 10);
}

// This happens at a fair tick: the clock has been read already when the next turn begins with a
// time.
TEST_F(Record, TwoTimesInARowMakeNoMoreOfThem)
{
	int64_t now = 1000;
	auto turns = [&](int n) {
		int times = 0;
		for (int i = 0; i < n; i++) {
			now += 50;
			times += test_record_turn(0, now);
		}
		return times;
	};

	turns(2000);
	for (int i = 0; i < 5; i++) {
		test_record_time(0, now += 50);
		test_record_time(0, now += 30);
		EXPECT_LE(turns(64), 1);
	}
}

TEST_F(Record, TimeNeverGoesBack)
{
	test_record_time(0, 500);
	test_record_time(0, 400);
	test_record_time(0, 600);
	auto records = copied(0);
	ASSERT_EQ(3u, records.size());
	EXPECT_EQ(500u, records[0].detail);
	EXPECT_EQ(500u, records[1].detail);
	EXPECT_EQ(600u, records[2].detail);
}

TEST_F(Record, SizesAreChecked)
{
	int rings = 0;

	for (const char *bad : {"1", "1T", "x", "-1", "1G"}) {
		test::Environment wish("SENNIT_RECORD", bad);
		EXPECT_EQ(-EINVAL, test_records_begin(1)) << bad;
	}
	{
		test::Environment wish("SENNIT_RECORD", "5000");
		EXPECT_EQ(0, test_records_begin(1));
		EXPECT_EQ(8192u / TEST_RECORD_BYTES, test_records_size(&rings));
		EXPECT_EQ(2, rings);
	}
	{
		test::Environment wish("SENNIT_RECORD", "0");
		EXPECT_EQ(0, test_records_begin(1));
		EXPECT_EQ(0u, test_records_size(&rings));
		EXPECT_EQ(0, rings);
	}
}

TEST_F(Record, WithoutMemoryNothingIsRecordedAndThatIsSaid)
{
	if (TEST_EMULATED)
		GTEST_SKIP() << "the emulator does not bound the address space";
	test::Environment wish("SENNIT_RECORD", sizeof(void *) > 4 ? "64M" : "1M");
	struct rlimit limit = {}, less = {};
	int rings = 1;

	ASSERT_EQ(0, getrlimit(RLIMIT_AS, &limit));
	less = limit;
	less.rlim_cur = 1 << 20;
	testing::internal::CaptureStderr();
	ASSERT_EQ(0, setrlimit(RLIMIT_AS, &less));
	int err = test_records_begin(4);
	ASSERT_EQ(0, setrlimit(RLIMIT_AS, &limit));
	std::string said = testing::internal::GetCapturedStderr();
	EXPECT_EQ(0, err);
	EXPECT_EQ(0u, test_records_size(&rings));
	EXPECT_EQ(0, rings);
	EXPECT_EQ(said, "sennit: no memory for 5 rings of " +
				std::string(sizeof(void *) > 4 ? "65536" : "1024") +
				" KiB (SENNIT_RECORD): nothing is recorded, so there are no traces "
				"and no profiles of waits\n");
}

} // namespace
