// SPDX-License-Identifier: MIT
//
// A reader of profiles in pprof's format (profile.proto), just large enough for sennit's profiles.
// A reference to something that does not exist fails the test.
#ifndef SENNIT_TESTS_SUPPORT_PROFILES_H
#define SENNIT_TESTS_SUPPORT_PROFILES_H

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

namespace test
{

// The fields of a message, in their order: numbers, or bytes.
class Proto
{
public:
	struct Field {
		unsigned number;
		uint64_t value;
		std::string bytes;
	};

	explicit Proto(const std::string &text)
	{
		for (size_t at = 0; at < text.size();) {
			uint64_t head = varint(text, at), value = varint(text, at);

			if ((head & 7) == 0) {
				fields_.push_back({unsigned(head >> 3), value, ""});
				continue;
			}
			EXPECT_EQ(2u, head & 7);
			EXPECT_LE(value, text.size() - at);
			if ((head & 7) != 2 || value > text.size() - at)
				return;
			fields_.push_back({unsigned(head >> 3), 0, text.substr(at, size_t(value))});
			at += size_t(value);
		}
	}
	const std::vector<Field> &fields() const { return fields_; }
	std::vector<uint64_t> numbers(unsigned number) const
	{
		std::vector<uint64_t> values;

		for (const auto &field : fields_)
			if (field.number == number)
				values.push_back(field.value);
		return values;
	}
	uint64_t number(unsigned number) const
	{
		auto values = numbers(number);

		return values.empty() ? 0 : values.back();
	}
	std::vector<std::string> texts(unsigned number) const
	{
		std::vector<std::string> values;

		for (const auto &field : fields_)
			if (field.number == number)
				values.push_back(field.bytes);
		return values;
	}

private:
	static uint64_t varint(const std::string &text, size_t &at)
	{
		uint64_t value = 0;

		for (unsigned shift = 0; at < text.size(); shift += 7) {
			auto byte = static_cast<unsigned char>(text[at++]);

			value |= uint64_t(byte & 0x7f) << shift;
			if (!(byte & 0x80))
				return value;
		}
		ADD_FAILURE() << "a number that does not end";
		return value;
	}

	std::vector<Field> fields_;
};

class Profile
{
public:
	struct Sample {
		// function names, "" where unknown; the innermost comes first
		std::vector<std::string> stack;
		std::vector<int64_t> values;
		std::map<std::string, std::string> labels;
		std::map<std::string, uint64_t> numbers;

		bool calls(const std::string &function) const
		{
			for (const auto &name : stack)
				if (name == function)
					return true;
			return false;
		}
		std::string label(const std::string &key) const
		{
			auto found = labels.find(key);

			return found == labels.end() ? "" : found->second;
		}
	};

	explicit Profile(const std::string &bytes)
	{
		Proto profile(bytes);
		std::map<uint64_t, std::string> functions, locations;
		std::map<uint64_t, std::pair<uint64_t, uint64_t>> mappings;

		strings_ = profile.texts(6);
		EXPECT_FALSE(strings_.empty());
		EXPECT_TRUE(strings_.empty() || strings_[0].empty());
		for (const auto &text : profile.texts(1))
			types.push_back(string(Proto(text).number(1)) + "/" +
					string(Proto(text).number(2)));
		for (const auto &text : profile.texts(3)) {
			Proto mapping(text);

			EXPECT_LT(mapping.number(2), mapping.number(3));
			EXPECT_NE("", string(mapping.number(5)));
			mappings[mapping.number(1)] = {mapping.number(2), mapping.number(3)};
			build_ids += !string(mapping.number(6)).empty();
		}
		EXPECT_FALSE(mappings.empty());
		for (const auto &text : profile.texts(5))
			functions[Proto(text).number(1)] = string(Proto(text).number(2));
		for (const auto &text : profile.texts(4)) {
			Proto location(text);
			const uint64_t mapping = location.number(2), address = location.number(3);

			EXPECT_NE(0u, location.number(1));
			EXPECT_EQ(0u, locations.count(location.number(1)));
			if (mapping) {
				EXPECT_EQ(1u, mappings.count(mapping));
				EXPECT_GE(address, mappings[mapping].first);
				EXPECT_LT(address, mappings[mapping].second);
			}
			locations[location.number(1)] = "";
			for (const auto &line : location.texts(4)) {
				EXPECT_EQ(1u, functions.count(Proto(line).number(1)));
				locations[location.number(1)] = functions[Proto(line).number(1)];
			}
		}
		for (const auto &text : profile.texts(2))
			add(Proto(text), locations);
		duration = int64_t(profile.number(10));
		period = int64_t(profile.number(12));
		main_type = string(profile.number(14));
		EXPECT_LT(0u, profile.number(9)) << "the time at which the profile was made";
	}

	// The sum of a value over the samples that fit.
	template <class Fits>
	int64_t sum(size_t value, Fits fits) const
	{
		int64_t sum = 0;

		for (const auto &sample : samples)
			if (fits(sample))
				sum += sample.values[value];
		return sum;
	}
	int64_t sum(size_t value) const
	{
		return sum(value, [](const Sample &) { return true; });
	}

	std::vector<std::string> types; // for example "cpu/nanoseconds"
	std::string main_type;
	std::vector<Sample> samples;
	int64_t duration = 0, period = 0;
	int build_ids = 0;

private:
	std::string string(uint64_t number) const
	{
		EXPECT_LT(number, strings_.size());
		return number < strings_.size() ? strings_[size_t(number)] : "";
	}
	void add(const Proto &message, const std::map<uint64_t, std::string> &locations)
	{
		Sample sample;

		for (uint64_t location : message.numbers(1)) {
			EXPECT_EQ(1u, locations.count(location));
			sample.stack.push_back(locations.at(location));
		}
		for (uint64_t value : message.numbers(2))
			sample.values.push_back(int64_t(value));
		EXPECT_EQ(types.size(), sample.values.size());
		for (const auto &text : message.texts(3)) {
			Proto label(text);
			const auto key = string(label.number(1));

			if (label.number(2))
				sample.labels[key] = string(label.number(2));
			else
				sample.numbers[key] = label.number(3);
		}
		samples.push_back(sample);
	}

	std::vector<std::string> strings_;
};

} // namespace test

#endif
