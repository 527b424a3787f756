if __name__ == "__main__":
    try:
        test_recorded_gradient()
    except AssertionError as failure:
        sys.exit(str(failure))
    print("within tolerance")
