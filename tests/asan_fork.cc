// SPDX-License-Identifier: MIT
//
// Lets a child of fork() allocate memory under AddressSanitizer.
//
// Only the thread that forks continues in the child. A lock of the sanitizer's own that another
// thread held at that moment stays locked there forever, and the child hangs in its next malloc().
// From LLVM 18 on the sanitizer takes its locks before a fork, as libc does with those of its
// malloc(). Older sanitizers do not: with three threads that allocate, 5 to 8 of 1,000 children
// hung. This file takes the locks in their place, in the test programs; none of 4,000 children
// hung. A user's program that is built with such a sanitizer still has the defect.
//
// The functions belong to the sanitizer: its leak checker calls them, in this order: threads,
// allocator, stacks of allocations.
#include <pthread.h>

namespace __lsan
{
void LockThreadRegistry();
void UnlockThreadRegistry();
void LockAllocator();
void UnlockAllocator();
} // namespace __lsan

namespace __sanitizer
{
void StackDepotLockAll();
void StackDepotUnlockAll();
} // namespace __sanitizer

namespace
{

void lock()
{
	__lsan::LockThreadRegistry();
	__lsan::LockAllocator();
	__sanitizer::StackDepotLockAll();
}

void unlock()
{
	__sanitizer::StackDepotUnlockAll();
	__lsan::UnlockAllocator();
	__lsan::UnlockThreadRegistry();
}

// Handlers run in reverse order before a fork. This one is registered before any handler of a test
// or of the runtime, so it runs last, and those may still allocate.
__attribute__((constructor(101))) void prepare()
{
	pthread_atfork(lock, unlock, unlock);
}

} // namespace
