msda_public_headers(msda_analysis operators/msda/call.h)
