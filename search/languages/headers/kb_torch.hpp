// What host code of CUDA extensions uses of torch's C++ library, by way of its Python one.
//
// torch's own headers take tens of seconds to compile. Host code that checks sizes, allocates an
// output and launches a kernel needs little of them: here a Tensor holds the Python object, and a
// method is a call of it, which costs some tens of nanoseconds. What is not here does not compile, and
// is then compiled with torch's own headers.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#ifdef __CUDACC__
#include <cuda.h>
#include <cuda_runtime.h>
#endif

namespace kb {

// An exception of Python is under way: it is raised where the call came from.
struct Raised {};

class Object {
 public:
  Object() = default;
  static Object own(PyObject* object) {
    if (object == nullptr) throw Raised{};
    Object result;
    result.object_ = object;
    return result;
  }
  static Object borrow(PyObject* object) {
    Py_XINCREF(object);
    Object result;
    result.object_ = object;
    return result;
  }
  Object(const Object& other) : object_(other.object_) { Py_XINCREF(object_); }
  Object(Object&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Object& operator=(Object other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Object() { Py_XDECREF(object_); }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// Names are made once and kept: a method call looks its name up by identity.
inline PyObject* name(const char* text) { return PyUnicode_InternFromString(text); }
#define KB_NAME(text) ([]() { static PyObject* kept = kb::name(text); return kept; }())

inline Object attribute(PyObject* object, PyObject* key) { return Object::own(PyObject_GetAttr(object, key)); }
inline PyObject* torch() {
  static PyObject* module = PyImport_ImportModule("torch");
  if (module == nullptr) throw Raised{};
  return module;
}
inline Object of_torch(PyObject* key) { return attribute(torch(), key); }
inline PyObject* kept_of_torch(const char* text) { return of_torch(name(text)).release(); }
inline PyObject* raw(const Object& object) { return object.get(); }
template <class... A>
Object method(PyObject* object, PyObject* key, const A&... arguments) {
  PyObject* all[] = {object, raw(arguments)...};
  return Object::own(PyObject_VectorcallMethod(key, all, (1 + sizeof...(A)) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
}
inline Object integer(int64_t value) { return Object::own(PyLong_FromLongLong(value)); }
inline Object real(double value) { return Object::own(PyFloat_FromDouble(value)); }
inline Object truth(bool value) { return Object::borrow(value ? Py_True : Py_False); }
inline int64_t to_integer(const Object& object) {
  const int64_t value = PyLong_AsLongLong(object.get());
  if (value == -1 && PyErr_Occurred()) throw Raised{};
  return value;
}
inline Object tuple(const std::vector<int64_t>& values) {
  Object result = Object::own(PyTuple_New(values.size()));
  for (size_t i = 0; i < values.size(); ++i) PyTuple_SET_ITEM(result.get(), i, integer(values[i]).release());
  return result;
}
inline std::string joined() { return {}; }
template <class... A>
std::string joined(const A&... parts) {
  std::ostringstream text;
  (void)(text << ... << parts);
  return text.str();
}

}  // namespace kb

namespace c10 {

enum class ScalarType : int8_t { Byte, Char, Short, Int, Long, Half, Float, Double, ComplexHalf, ComplexFloat, ComplexDouble, Bool, BFloat16 = 15, Undefined = 40 };
constexpr ScalarType kByte = ScalarType::Byte, kChar = ScalarType::Char, kShort = ScalarType::Short, kInt = ScalarType::Int;
constexpr ScalarType kLong = ScalarType::Long, kHalf = ScalarType::Half, kFloat = ScalarType::Float, kDouble = ScalarType::Double;
constexpr ScalarType kBool = ScalarType::Bool, kBFloat16 = ScalarType::BFloat16;
inline const char* toString(ScalarType type) {
  switch (type) {
    case ScalarType::Byte: return "uint8";
    case ScalarType::Char: return "int8";
    case ScalarType::Short: return "int16";
    case ScalarType::Int: return "int32";
    case ScalarType::Long: return "int64";
    case ScalarType::Half: return "float16";
    case ScalarType::Float: return "float32";
    case ScalarType::Double: return "float64";
    case ScalarType::Bool: return "bool";
    case ScalarType::BFloat16: return "bfloat16";
    default: return "another type";
  }
}
inline std::ostream& operator<<(std::ostream& text, ScalarType type) { return text << toString(type); }

// To point to: what calculates with them is compiled with torch's own types.
struct Half { uint16_t x; };
struct BFloat16 { uint16_t x; };

enum class DeviceType : int8_t { CPU = 0, CUDA = 1 };
constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA;
using DeviceIndex = int8_t;

class Device {
 public:
  Device(DeviceType type, int index = -1) : type_(type), index_(index) {}
  DeviceType type() const { return type_; }
  DeviceIndex index() const { return static_cast<DeviceIndex>(index_); }
  bool is_cuda() const { return type_ == DeviceType::CUDA; }
  bool is_cpu() const { return type_ == DeviceType::CPU; }
  bool operator==(const Device& other) const { return type_ == other.type_ && index_ == other.index_; }
  bool operator!=(const Device& other) const { return !(*this == other); }
  std::string str() const { return (is_cuda() ? "cuda" : "cpu") + (index_ < 0 ? std::string() : ":" + std::to_string(index_)); }

 private:
  DeviceType type_;
  int index_;
};
inline std::ostream& operator<<(std::ostream& text, const Device& device) { return text << device.str(); }

// Owns its numbers: the real one points to a tensor's, which are made on demand here.
class IntArrayRef : public std::vector<int64_t> {
 public:
  IntArrayRef() = default;
  IntArrayRef(std::initializer_list<int64_t> values) : std::vector<int64_t>(values) {}
  IntArrayRef(const std::vector<int64_t>& values) : std::vector<int64_t>(values) {}
  template <size_t N>
  IntArrayRef(const std::array<int64_t, N>& values) : std::vector<int64_t>(values.begin(), values.end()) {}
  std::vector<int64_t> vec() const { return *this; }
  bool equals(const IntArrayRef& other) const { return *this == other; }
};
inline std::ostream& operator<<(std::ostream& text, const IntArrayRef& values) {
  text << '[';
  for (size_t i = 0; i < values.size(); ++i) text << (i ? ", " : "") << values[i];
  return text << ']';
}

struct TensorOptions {
  TensorOptions() = default;
  TensorOptions(ScalarType type) : type_(type) {}
  TensorOptions(Device device) : device_(device) {}
  TensorOptions(DeviceType type) : device_(Device(type)) {}
  TensorOptions dtype(ScalarType type) const { TensorOptions result = *this; result.type_ = type; return result; }
  TensorOptions device(Device device) const { TensorOptions result = *this; result.device_ = device; result.object_ = {}; return result; }
  TensorOptions device(DeviceType type, int index = -1) const { return device(Device(type, index)); }
  TensorOptions requires_grad(bool wanted) const { if (wanted) throw std::runtime_error("requires_grad is not available here"); return *this; }
  std::optional<ScalarType> type_;
  std::optional<Device> device_;
  kb::Object object_;  // the device as a tensor gave it
};

using std::nullopt;
template <class T> using optional = std::optional<T>;

}  // namespace c10

namespace at {

using namespace c10;

class Tensor;
}  // namespace at
namespace kb {
// An argument as Python takes it.
inline Object given(bool value) { return truth(value); }
inline Object given(double value) { return real(value); }
inline Object given(float value) { return real(value); }
template <class T, class = std::enable_if_t<std::is_integral_v<T>>> Object given(T value) { return integer(value); }
inline Object given(const c10::IntArrayRef& values) { return tuple(values); }
inline Object given(std::initializer_list<int64_t> values) { return tuple(values); }
inline Object given(const at::Tensor& value);
}  // namespace kb
namespace at {

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(kb::Object object) : object_(std::move(object)) {}
  const kb::Object& object() const { return object_; }
  bool defined() const { return static_cast<bool>(object_); }

  int64_t dim() const { return number(KB_NAME("dim")); }
  int64_t ndimension() const { return dim(); }
  int64_t numel() const { return number(KB_NAME("numel")); }
  int64_t element_size() const { return number(KB_NAME("element_size")); }
  int64_t nbytes() const { return numel() * element_size(); }
  int64_t size(int64_t axis) const { return kb::to_integer(call(KB_NAME("size"), kb::integer(axis))); }
  int64_t stride(int64_t axis) const { return kb::to_integer(call(KB_NAME("stride"), kb::integer(axis))); }
  int64_t storage_offset() const { return number(KB_NAME("storage_offset")); }
  IntArrayRef sizes() const { return numbers(KB_NAME("size")); }
  IntArrayRef strides() const { return numbers(KB_NAME("stride")); }
  bool is_contiguous() const { return call(KB_NAME("is_contiguous")).get() == Py_True; }
  bool is_cuda() const { return kb::attribute(object_.get(), KB_NAME("is_cuda")).get() == Py_True; }
  bool is_cpu() const { return kb::attribute(object_.get(), KB_NAME("is_cpu")).get() == Py_True; }
  bool requires_grad() const { return kb::attribute(object_.get(), KB_NAME("requires_grad")).get() == Py_True; }
  bool is_floating_point() const { return call(KB_NAME("is_floating_point")).get() == Py_True; }
  int64_t get_device() const { return number(KB_NAME("get_device")); }
  Device device() const { return is_cuda() ? Device(kCUDA, static_cast<int>(get_device())) : Device(kCPU); }
  ScalarType scalar_type() const;
  ScalarType dtype() const { return scalar_type(); }
  TensorOptions options() const {
    TensorOptions result = TensorOptions().dtype(scalar_type()).device(device());
    result.object_ = kb::attribute(object_.get(), KB_NAME("device"));
    return result;
  }

  void* data_ptr() const { return reinterpret_cast<void*>(number(KB_NAME("data_ptr"))); }
  template <class T> T* data_ptr() const { expect<T>(); return static_cast<T*>(data_ptr()); }
  template <class T> T* data() const { return data_ptr<T>(); }
  template <class T> T* mutable_data_ptr() const { return data_ptr<T>(); }
  template <class T> const T* const_data_ptr() const { return data_ptr<std::remove_const_t<T>>(); }
  void* mutable_data_ptr() const { return data_ptr(); }
  const void* const_data_ptr() const { return data_ptr(); }
  template <class T> T item() const {
    const kb::Object value = call(KB_NAME("item"));
    const double result = PyFloat_AsDouble(value.get());
    if (result == -1.0 && PyErr_Occurred()) throw kb::Raised{};
    return static_cast<T>(result);
  }

  Tensor contiguous() const { return Tensor(call(KB_NAME("contiguous"))); }
  Tensor clone() const { return Tensor(call(KB_NAME("clone"))); }
  Tensor detach() const { return Tensor(call(KB_NAME("detach"))); }
  Tensor t() const { return Tensor(call(KB_NAME("t"))); }
  Tensor cuda() const { return Tensor(call(KB_NAME("cuda"))); }
  Tensor cpu() const { return Tensor(call(KB_NAME("cpu"))); }
  Tensor view(const IntArrayRef& sizes) const { return Tensor(call(KB_NAME("view"), kb::tuple(sizes))); }
  Tensor reshape(const IntArrayRef& sizes) const { return Tensor(call(KB_NAME("reshape"), kb::tuple(sizes))); }
  Tensor permute(const IntArrayRef& axes) const { return Tensor(call(KB_NAME("permute"), kb::tuple(axes))); }
  Tensor expand(const IntArrayRef& sizes) const { return Tensor(call(KB_NAME("expand"), kb::tuple(sizes))); }
  Tensor transpose(int64_t a, int64_t b) const { return Tensor(call(KB_NAME("transpose"), kb::integer(a), kb::integer(b))); }
  Tensor unsqueeze(int64_t axis) const { return Tensor(call(KB_NAME("unsqueeze"), kb::integer(axis))); }
  Tensor squeeze(int64_t axis) const { return Tensor(call(KB_NAME("squeeze"), kb::integer(axis))); }
  Tensor squeeze() const { return Tensor(call(KB_NAME("squeeze"))); }
  Tensor flatten(int64_t first = 0, int64_t last = -1) const { return Tensor(call(KB_NAME("flatten"), kb::integer(first), kb::integer(last))); }
  Tensor narrow(int64_t axis, int64_t start, int64_t length) const { return Tensor(call(KB_NAME("narrow"), kb::integer(axis), kb::integer(start), kb::integer(length))); }
  Tensor select(int64_t axis, int64_t index) const { return Tensor(call(KB_NAME("select"), kb::integer(axis), kb::integer(index))); }
  Tensor to(ScalarType type) const { return Tensor(call(KB_NAME("to"), kb::of_torch(kb::Object::own(kb::name(toString(type))).get()))); }
  Tensor to(const Device& device) const { return Tensor(call(KB_NAME("to"), kb::Object::own(PyUnicode_FromString(device.str().c_str())))); }
  Tensor& zero_() { call(KB_NAME("zero_")); return *this; }
  Tensor& fill_(double value) { call(KB_NAME("fill_"), kb::real(value)); return *this; }
  Tensor& copy_(const Tensor& other) { call(KB_NAME("copy_"), other.object_); return *this; }
  template <class... A> Tensor sum(const A&... arguments) const { return Tensor(call(KB_NAME("sum"), kb::given(arguments)...)); }
  template <class... A> Tensor mean(const A&... arguments) const { return Tensor(call(KB_NAME("mean"), kb::given(arguments)...)); }
  Tensor max() const { return Tensor(call(KB_NAME("max"))); }
  Tensor min() const { return Tensor(call(KB_NAME("min"))); }
  Tensor abs() const { return Tensor(call(KB_NAME("abs"))); }
  Tensor matmul(const Tensor& other) const { return Tensor(call(KB_NAME("matmul"), other.object_)); }
  template <class T> Tensor add(const T& other) const { return Tensor(call(KB_NAME("add"), kb::given(other))); }
  template <class T> Tensor mul(const T& other) const { return Tensor(call(KB_NAME("mul"), kb::given(other))); }
  template <class T> Tensor& add_(const T& other) { call(KB_NAME("add_"), kb::given(other)); return *this; }
  template <class T> Tensor& mul_(const T& other) { call(KB_NAME("mul_"), kb::given(other)); return *this; }
  bool is_same(const Tensor& other) const { return object_.get() == other.object_.get(); }

 private:
  template <class... A>
  kb::Object call(PyObject* key, const A&... arguments) const {
    if (!object_) throw std::runtime_error("a tensor that is not defined was used");
    return kb::method(object_.get(), key, arguments...);
  }
  int64_t number(PyObject* key) const { return kb::to_integer(call(key)); }
  IntArrayRef numbers(PyObject* key) const {
    const kb::Object found = call(key);
    IntArrayRef result;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(found.get()); ++i)
      result.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(found.get(), i)));
    return result;
  }
  template <class T> void expect() const;
  kb::Object object_;
};

inline ScalarType Tensor::scalar_type() const {
  static PyObject* const kinds[] = {kb::kept_of_torch("float32"), kb::kept_of_torch("float16"), kb::kept_of_torch("bfloat16"), kb::kept_of_torch("int64"),
    kb::kept_of_torch("int32"), kb::kept_of_torch("float64"), kb::kept_of_torch("bool"), kb::kept_of_torch("uint8"), kb::kept_of_torch("int8"), kb::kept_of_torch("int16")};
  static const ScalarType types[] = {kFloat, kHalf, kBFloat16, kLong, kInt, kDouble, kBool, kByte, kChar, kShort};
  const kb::Object kind = kb::attribute(object_.get(), KB_NAME("dtype"));
  for (int i = 0; i < 10; ++i)
    if (kinds[i] == kind.get()) return types[i];
  return ScalarType::Undefined;
}

template <class T> constexpr ScalarType scalar_type_of() {
  using P = std::remove_const_t<T>;
  if constexpr (std::is_same_v<P, float>) return kFloat;
  else if constexpr (std::is_same_v<P, double>) return kDouble;
  else if constexpr (std::is_same_v<P, int>) return kInt;
  else if constexpr (std::is_same_v<P, int64_t> || std::is_same_v<P, long long>) return kLong;
  else if constexpr (std::is_same_v<P, bool>) return kBool;
  else if constexpr (std::is_same_v<P, uint8_t>) return kByte;
  else if constexpr (std::is_same_v<P, int8_t>) return kChar;
  else if constexpr (std::is_same_v<P, int16_t>) return kShort;
  else if constexpr (std::is_same_v<P, Half>) return kHalf;
  else if constexpr (std::is_same_v<P, BFloat16>) return kBFloat16;
  else return ScalarType::Undefined;
}
template <class T> void Tensor::expect() const {
  constexpr ScalarType wanted = scalar_type_of<T>();
  static_assert(wanted != ScalarType::Undefined, "namespace \"torch\" has no member for this element type");
  const ScalarType found = scalar_type();
  if (found != wanted) throw std::runtime_error(kb::joined("expected scalar type ", wanted, " but found ", found));
}

namespace detail {
inline Tensor make(const char* function, std::vector<kb::Object> arguments, const TensorOptions& options) {
  std::vector<PyObject*> all{nullptr};
  for (const kb::Object& argument : arguments) all.push_back(argument.get());
  std::vector<kb::Object> kept;
  kb::Object names = kb::Object::own(PyTuple_New((options.type_ ? 1 : 0) + (options.device_ ? 1 : 0)));
  Py_ssize_t at = 0;
  if (options.type_) {
    kept.push_back(kb::of_torch(kb::Object::own(kb::name(toString(*options.type_))).get()));
    PyTuple_SET_ITEM(names.get(), at++, kb::Object::borrow(KB_NAME("dtype")).release());
    all.push_back(kept.back().get());
  }
  if (options.device_) {
    kept.push_back(options.object_ ? options.object_ : kb::Object::own(PyUnicode_FromString(options.device_->str().c_str())));
    PyTuple_SET_ITEM(names.get(), at++, kb::Object::borrow(KB_NAME("device")).release());
    all.push_back(kept.back().get());
  }
  const kb::Object callee = kb::of_torch(kb::Object::own(kb::name(function)).get());
  return Tensor(kb::Object::own(PyObject_Vectorcall(callee.get(), all.data() + 1, arguments.size() | PY_VECTORCALL_ARGUMENTS_OFFSET, names.get())));
}
}  // namespace detail

namespace detail {
template <class... A> Tensor call(PyObject* key, const A&... arguments) {
  const kb::Object callee = kb::of_torch(key);
  const kb::Object all[] = {kb::given(arguments)...};
  PyObject* raw[sizeof...(A) + 1] = {nullptr};
  for (size_t i = 0; i < sizeof...(A); ++i) raw[i + 1] = all[i].get();
  return Tensor(kb::Object::own(PyObject_Vectorcall(callee.get(), raw + 1, sizeof...(A) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr)));
}
}  // namespace detail
#define KB_OPERATOR(called) template <class... A> Tensor called(const Tensor& x, const A&... rest) { return detail::call(KB_NAME(#called), x, rest...); }
KB_OPERATOR(matmul) KB_OPERATOR(mm) KB_OPERATOR(bmm) KB_OPERATOR(relu) KB_OPERATOR(sigmoid) KB_OPERATOR(tanh) KB_OPERATOR(exp)
KB_OPERATOR(sqrt) KB_OPERATOR(abs) KB_OPERATOR(add) KB_OPERATOR(sub) KB_OPERATOR(mul) KB_OPERATOR(div) KB_OPERATOR(sum) KB_OPERATOR(mean)
KB_OPERATOR(transpose) KB_OPERATOR(softmax)
#define KB_ARITHMETIC(sign, function) \
  template <class T> Tensor operator sign(const Tensor& a, const T& b) { return Tensor(kb::Object::own(function(a.object().get(), kb::given(b).get()))); } \
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>> Tensor operator sign(T a, const Tensor& b) { return Tensor(kb::Object::own(function(kb::given(a).get(), b.object().get()))); }
KB_ARITHMETIC(+, PyNumber_Add) KB_ARITHMETIC(-, PyNumber_Subtract) KB_ARITHMETIC(*, PyNumber_Multiply) KB_ARITHMETIC(/, PyNumber_TrueDivide)

inline Tensor empty(const IntArrayRef& sizes, const TensorOptions& options = {}) { return detail::make("empty", {kb::tuple(sizes)}, options); }
inline Tensor zeros(const IntArrayRef& sizes, const TensorOptions& options = {}) { return detail::make("zeros", {kb::tuple(sizes)}, options); }
inline Tensor ones(const IntArrayRef& sizes, const TensorOptions& options = {}) { return detail::make("ones", {kb::tuple(sizes)}, options); }
inline Tensor full(const IntArrayRef& sizes, double value, const TensorOptions& options = {}) { return detail::make("full", {kb::tuple(sizes), kb::real(value)}, options); }
inline Tensor empty_like(const Tensor& x, const TensorOptions& options = {}) { return detail::make("empty_like", {x.object()}, options); }
inline Tensor zeros_like(const Tensor& x, const TensorOptions& options = {}) { return detail::make("zeros_like", {x.object()}, options); }
inline Tensor ones_like(const Tensor& x, const TensorOptions& options = {}) { return detail::make("ones_like", {x.object()}, options); }
inline Tensor full_like(const Tensor& x, double value, const TensorOptions& options = {}) { return detail::make("full_like", {x.object(), kb::real(value)}, options); }

}  // namespace at
namespace kb {
inline Object given(const at::Tensor& value) { return value.object(); }
}  // namespace kb
namespace at {

#ifdef __CUDACC__
namespace cuda {
struct CUDAStream {
  cudaStream_t stream() const { return stream_; }
  operator cudaStream_t() const { return stream_; }
  cudaStream_t stream_;
};
inline CUDAStream getCurrentCUDAStream(int64_t device = -1) {
  static PyObject* find = kb::attribute(kb::attribute(kb::torch(), KB_NAME("_C")).get(), KB_NAME("_cuda_getCurrentRawStream")).release();
  int current = static_cast<int>(device);
  if (device < 0) cudaGetDevice(&current);
  const kb::Object index = kb::integer(current);
  return CUDAStream{reinterpret_cast<cudaStream_t>(kb::to_integer(kb::Object::own(PyObject_CallOneArg(find, index.get()))))};
}
inline cudaDeviceProp* getCurrentDeviceProperties() {
  static cudaDeviceProp kept = [] { cudaDeviceProp found; int device = 0; cudaGetDevice(&device); cudaGetDeviceProperties(&found, device); return found; }();
  return &kept;
}
// The device that a call runs on is the current one already.
struct CUDAGuard { explicit CUDAGuard(const Device&) {} explicit CUDAGuard(DeviceIndex) {} };
struct OptionalCUDAGuard { OptionalCUDAGuard() = default; template <class T> explicit OptionalCUDAGuard(const T&) {} };
}  // namespace cuda
inline Device device_of(const Tensor& x) { return x.device(); }
#endif

}  // namespace at

namespace c10 {
#ifdef __CUDACC__
namespace cuda { using at::cuda::CUDAStream; using at::cuda::CUDAGuard; using at::cuda::OptionalCUDAGuard; using at::cuda::getCurrentCUDAStream; }
#endif
}  // namespace c10

namespace torch {
using namespace at;
using Dtype = ScalarType;
constexpr ScalarType kUInt8 = kByte, kInt8 = kChar, kInt16 = kShort, kInt32 = kInt, kInt64 = kLong;
constexpr ScalarType kFloat16 = kHalf, kFloat32 = kFloat, kFloat64 = kDouble, kF32 = kFloat, kI32 = kInt, kI64 = kLong;
inline TensorOptions dtype(ScalarType type) { return TensorOptions(type); }
inline TensorOptions device(Device where) { return TensorOptions(where); }
}  // namespace torch

#define TORCH_CHECK(condition, ...) do { if (!(condition)) throw std::runtime_error(kb::joined(__VA_ARGS__).empty() ? std::string("Expected " #condition " to be true, but got false.") : kb::joined(__VA_ARGS__)); } while (0)
#define TORCH_INTERNAL_ASSERT TORCH_CHECK
#define AT_ASSERTM TORCH_CHECK
#define AT_ERROR(...) throw std::runtime_error(kb::joined(__VA_ARGS__))
#define C10_CUDA_CHECK(expression) do { const cudaError_t kb_status = (expression); if (kb_status != cudaSuccess) throw std::runtime_error(kb::joined("CUDA error: ", cudaGetErrorString(kb_status))); } while (0)
#define AT_CUDA_CHECK C10_CUDA_CHECK
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define KB_CASE(kind, type, ...) case kind: { using scalar_t = type; return __VA_ARGS__(); }
#define AT_DISPATCH_FLOATING_TYPES(type, label, ...) [&] { switch (type) { \
  KB_CASE(at::ScalarType::Float, float, __VA_ARGS__) KB_CASE(at::ScalarType::Double, double, __VA_ARGS__) \
  default: throw std::runtime_error(kb::joined('"', label, "\" not implemented for '", type, "'")); } }()

namespace kb {

// How arguments come from Python and results go there.
template <class T, class = void> struct Passed;
template <> struct Passed<at::Tensor> {
  static at::Tensor load(PyObject* object) {
    static PyObject* kind = kept_of_torch("Tensor");
    if (PyObject_IsInstance(object, kind) != 1) throw std::invalid_argument("a tensor");
    return at::Tensor(Object::borrow(object));
  }
  static PyObject* give(const at::Tensor& x) { return x.defined() ? Object(x.object()).release() : Object::borrow(Py_None).release(); }
};
template <> struct Passed<bool> {
  static bool load(PyObject* object) { if (!PyBool_Check(object)) throw std::invalid_argument("a bool"); return object == Py_True; }
  static PyObject* give(bool value) { return truth(value).release(); }
};
template <class T> struct Passed<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> {
  static T load(PyObject* object) {
    if (PyFloat_Check(object) || !PyIndex_Check(object)) throw std::invalid_argument("an integer");
    const int64_t value = to_integer(Object::own(PyNumber_Index(object)));
    if (static_cast<int64_t>(static_cast<T>(value)) != value) throw std::invalid_argument("an integer that fits");
    return static_cast<T>(value);
  }
  static PyObject* give(T value) { return integer(static_cast<int64_t>(value)).release(); }
};
template <class T> struct Passed<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  static T load(PyObject* object) {
    const double value = PyFloat_AsDouble(object);
    if (value == -1.0 && PyErr_Occurred()) { PyErr_Clear(); throw std::invalid_argument("a number"); }
    return static_cast<T>(value);
  }
  static PyObject* give(T value) { return real(value).release(); }
};
template <> struct Passed<std::string> {
  static std::string load(PyObject* object) {
    const char* text = PyUnicode_Check(object) ? PyUnicode_AsUTF8(object) : nullptr;
    if (text == nullptr) throw std::invalid_argument("a string");
    return text;
  }
  static PyObject* give(const std::string& text) { return Object::own(PyUnicode_FromString(text.c_str())).release(); }
};
template <class T> struct Passed<std::optional<T>> {
  static std::optional<T> load(PyObject* object) { return object == Py_None ? std::nullopt : std::optional<T>(Passed<T>::load(object)); }
  static PyObject* give(const std::optional<T>& value) { return value ? Passed<T>::give(*value) : Object::borrow(Py_None).release(); }
};
template <class T> struct Passed<std::vector<T>> {
  static std::vector<T> load(PyObject* object) {
    if (!PyList_Check(object) && !PyTuple_Check(object)) throw std::invalid_argument("a list");
    const Object all = Object::own(PySequence_Tuple(object));
    std::vector<T> values;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(all.get()); ++i) values.push_back(Passed<T>::load(PyTuple_GET_ITEM(all.get(), i)));
    return values;
  }
  static PyObject* give(const std::vector<T>& values) {
    Object all = Object::own(PyList_New(values.size()));
    for (size_t i = 0; i < values.size(); ++i) PyList_SET_ITEM(all.get(), i, Passed<T>::give(values[i]));
    return all.release();
  }
};
template <> struct Passed<at::IntArrayRef> { static at::IntArrayRef load(PyObject* object) { return Passed<std::vector<int64_t>>::load(object); } };
template <class... T> struct Passed<std::tuple<T...>> {
  static PyObject* give(const std::tuple<T...>& values) {
    Object all = Object::own(PyTuple_New(sizeof...(T)));
    Py_ssize_t at = 0;
    std::apply([&](const T&... value) { (PyTuple_SET_ITEM(all.get(), at++, Passed<T>::give(value)), ...); }, values);
    return all.release();
  }
};

template <class R, class... A, size_t... I>
PyObject* run(R (*function)(A...), PyObject* const* arguments, std::index_sequence<I...>) {
  std::tuple<std::decay_t<A>...> values{Passed<std::decay_t<A>>::load(arguments[I])...};
  if constexpr (std::is_void_v<R>) {
    function(static_cast<A&&>(std::get<I>(values))...);
    return Object::borrow(Py_None).release();
  } else {
    return Passed<std::decay_t<R>>::give(function(static_cast<A&&>(std::get<I>(values))...));
  }
}
template <class R, class... A>
PyObject* entered(const char* called, R (*function)(A...), PyObject* const* arguments, Py_ssize_t count) {
  if (count != static_cast<Py_ssize_t>(sizeof...(A))) {
    PyErr_Format(PyExc_TypeError, "%s(): incompatible function arguments: %zd expected, %zd given", called, static_cast<Py_ssize_t>(sizeof...(A)), count);
    return nullptr;
  }
  try {
    return run(function, arguments, std::index_sequence_for<A...>{});
  } catch (const Raised&) {
  } catch (const std::invalid_argument& error) {
    PyErr_Format(PyExc_TypeError, "%s(): incompatible function arguments: expected %s", called, error.what());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}
#define KB_FUNCTION(called) {#called, reinterpret_cast<PyCFunction>(static_cast<PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t)>( \
  [](PyObject*, PyObject* const* arguments, Py_ssize_t count) -> PyObject* { return kb::entered(#called, &called, arguments, count); })), METH_FASTCALL, nullptr}
#define KB_MODULE_(module, ...) extern "C" __attribute__((visibility("default"))) PyObject* PyInit_##module() { \
  static PyMethodDef methods[] = {__VA_ARGS__, {nullptr, nullptr, 0, nullptr}}; \
  static PyModuleDef definition = {PyModuleDef_HEAD_INIT, #module, nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr}; \
  return PyModule_Create(&definition); }
#define KB_MODULE(module, ...) KB_MODULE_(module, __VA_ARGS__)

}  // namespace kb
