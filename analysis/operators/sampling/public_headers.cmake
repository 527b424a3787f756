msda_public_headers(msda_analysis operators/sampling/arithmetic.h operators/sampling/call.h)
