"""What a candidate's file imports: C++, CUDA C++ and torch's `load_inline`, built and loaded."""
