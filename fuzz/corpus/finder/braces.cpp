namespace a {
  class B {
    void f() {
      if (x) { {
      }
    }
    int g() const { return 1; }
  };
	int h()
	{
	}
}
