public import Crypto

/// Keys for these tests only.
public enum TestKeys {
    public static let privatePEM = """
        -----BEGIN PRIVATE KEY-----
        MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDcuGmdxfNPZ1yR
        AjUd64FiJlPeaeq/yqvNswDfg/6Wtu9FNa/thNp6nN2m1gZALfvsOXHaBXU+MLCt
        kM2DAzLsAkpjKyYfktWkdDkXtKZ/u2Z33+3iQi0iCVQW5EQo1rKV7lb3ERAD/LD2
        KnGb/dK+NB0/rxMI/FVw+wN008h+hLFRzkEn5FYkkCXTP55jQPB9O7PPQ99v0aln
        S+wwGM7KnQH2zAZsaND4NEG27+NSqbCIGQzBMSxJ+nec92PpPX71d8JLrSEXEj5S
        JfIN89xCqh8qTj4ch6+F6GWMS4kHszf0Jnnrmj/5BXH5iyMRFxyjE4U3yTl4ad7k
        v1myx20BAgMBAAECggEADHo3rO3JT5D8yHfIT+zbJL9yQ02tMcgVG+zwHN1F3E2d
        dhtPBY2FRPmEMDpuIl0ByPywWnkE2TirFuIWNBSktsx5rw8mjxIKa3W52oS3BYaE
        XZIg97GdAo0QyLXWbTvsiZGZL0tdd+mQ3sGkfYMvptqkV/rKMoUCltSh1o4NtKp/
        DZer2eRWVoapO4JpAiX8zTY1vyv1QFmZp+sIw1hKNxy06kwi08rxMZWX5Y+bxOGN
        D82cCFrHQMWXs45R8qBWczI6HGDHd5aprUc0OAbhnSyYKZSMCQ1vTSbbzmL5fbs5
        NiWJ+ZX3xQJKXocI7mtaEGBTOI7Z7UuNBNKZS7sNjwKBgQD/Ivj2sfHv+LMj7aYw
        3T2wpl2wfjFW+LS7KjBYGnWcr3O3dfpDNS/kxJDjxPYyJzCMjng1/Rk0CWXEPjXh
        MuKNj66nETJRGg2oOrvff7q4UZdP6nm2/57lrpRSMfglRxhq0lWWKMqilvOIGyM7
        IEDFHg6/HptGc2ZstEHueYw5XwKBgQDdd5/5Mi6u/O8GPQLZOLzCqhQtiGUcka4n
        Mq8F5hgA2GfVzmzqY2GH3kUGdI95yaoit+dDF7GABzdlW9RIPy+Z5Jq7NU4O/iBD
        3imgXXp/jTAnQf4JZ1HFdXkpXe8czt7McEWirDVE8CUNBKWx38AR9K28rKeWZNUJ
        M8xs3uUVnwKBgQC7c9+FqVH/pTNBR38eUb7chi852E25/7sR9LpWUQJun34eogDA
        1lgc9csafgEA8kg6TQbHa/DTicAKgkal8fQAXDvPJdRZQBIesyCL4lW2zMOmhLju
        mjsNt8nj5jDSerzW5zjYvZm8AbpmGsI008qiySW+h+c/yNPNNFdotkcvcwKBgBUk
        46gWC3D3gxaUYp48lYD8XfrO5+BnZDon05/7jNUf1CIMmEd0f45KQUrRfBVDlLPF
        3RWBwJeZmMdbkhPnvHKz6bXv6+jwiEIShuThp91frHZDDa72J09z3MJ/TmHwukLI
        gU17pYZUayUoCW3HD/5m3uOBlGp+a/x57o2CZlq/AoGARhe+TQOStGud+PRHC12b
        /z8naq1W0Qh8p6wCbNybqrhYBLbOz4c4Q9y/vtUr/j1DxyLtbMWlAqvlxlHRY5Aa
        j6XdE0LfZ6oMms0aome9vlyj5jjkX1qlWuVd4zF87tLKKRdjfmsp0vLluma2++Y/
        iMpaAe8DKuU3i462wkUx9m8=
        -----END PRIVATE KEY-----
        """
    public static let certificatePEM = """
        -----BEGIN CERTIFICATE-----
        MIIDATCCAemgAwIBAgIUTm6JX12LHZh/zvco72nZj8QC9fswDQYJKoZIhvcNAQEL
        BQAwDzENMAsGA1UEAwwEdGVzdDAgFw0yNjExMjAxMDExMzJaGA8yMTI2MTAyNzEw
        MTEzMlowDzENMAsGA1UEAwwEdGVzdDCCASIwDQYJKoZIhvcNAQEBBQADggEPADCC
        AQoCggEBANy4aZ3F809nXJECNR3rgWImU95p6r/Kq82zAN+D/pa270U1r+2E2nqc
        3abWBkAt++w5cdoFdT4wsK2QzYMDMuwCSmMrJh+S1aR0ORe0pn+7Znff7eJCLSIJ
        VBbkRCjWspXuVvcREAP8sPYqcZv90r40HT+vEwj8VXD7A3TTyH6EsVHOQSfkViSQ
        JdM/nmNA8H07s89D32/RqWdL7DAYzsqdAfbMBmxo0Pg0Qbbv41KpsIgZDMExLEn6
        d5z3Y+k9fvV3wkutIRcSPlIl8g3z3EKqHypOPhyHr4XoZYxLiQezN/QmeeuaP/kF
        cfmLIxEXHKMThTfJOXhp3uS/WbLHbQECAwEAAaNTMFEwHQYDVR0OBBYEFL1kqZN5
        oEPvnFTmuyZdsbtcGyEiMB8GA1UdIwQYMBaAFL1kqZN5oEPvnFTmuyZdsbtcGyEi
        MA8GA1UdEwEB/wQFMAMBAf8wDQYJKoZIhvcNAQELBQADggEBAGJFMKRPXd2Fnxwt
        iY6q/l8HrxE5JYPVmfP7sHyvn9/H0RQMDZ7gHyB8vl/poCtJ2n5NFI8uTP0/QfVe
        KDvARMi4XDbJN/VIseYkEMSJ6tN9TtgysQYd1e60s34N73QORLblAddKKUOlrHI9
        cXm0litau2ee44vH2VFuSvw+Bu/R4jDMR6rJh7WR2gKom/EuJOe90zqRZZcvcOTI
        84w1zn1goK9UF3+TlBa+evuErbHRB0uzqjRmrtHB0xnwSpEVH2Qhy6V2udrADRZP
        Frww0lPaLx+mw3W7OB9dn+iiqPL6V+PwIRg3o1lN/QgSYNklcU7vJws6SnMve4ry
        IQm3534=
        -----END CERTIFICATE-----
        """
    /// The modulus of the certificate's key, in the form of a JWK.
    public static let modulus =
        "3LhpncXzT2dckQI1HeuBYiZT3mnqv8qrzbMA34P-lrbvRTWv7YTaepzdptYGQC377Dlx2gV1PjCwrZDNgwMy7AJKYysmH5LVpHQ5"
        + "F7Smf7tmd9_t4kItIglUFuREKNayle5W9xEQA_yw9ipxm_3SvjQdP68TCPxVcPsDdNPIfoSxUc5BJ-RWJJAl0z-eY0DwfTuzz0Pf"
        + "b9GpZ0vsMBjOyp0B9swGbGjQ-DRBtu_jUqmwiBkMwTEsSfp3nPdj6T1-9XfCS60hFxI-UiXyDfPcQqofKk4-HIevhehljEuJB7M3"
        + "9CZ565o_-QVx-YsjERccoxOFN8k5eGne5L9ZssdtAQ"
    public static let exponent = "AQAB"
    /// A certificate with a key of 1,024 bits.
    public static let smallCertificatePEM = """
        -----BEGIN CERTIFICATE-----
        MIIB/jCCAWegAwIBAgIUUt5M38nmQA000ZiMd6kQoZZV1OIwDQYJKoZIhvcNAQEL
        BQAwEDEOMAwGA1UEAwwFc21hbGwwIBcNMjYxMTIwMTAxMTMyWhgPMjEyNjEwMjcx
        MDExMzJaMBAxDjAMBgNVBAMMBXNtYWxsMIGfMA0GCSqGSIb3DQEBAQUAA4GNADCB
        iQKBgQC0xyOTaARctR1NIpkS6qGQnEWCXdEB4f85a8L2uLUABZyl0KTYy2IYpADC
        X+aZ4xqP5Sa0YAJkyAuMkHUuMxJodyGdkVmNjoaNUurlwPjVQXaVw67wW4mVcplQ
        IpGTAHi3VDzkxgOXtBIULm/dN24y/4MbldE8+GdBVCADZ6mOfwIDAQABo1MwUTAd
        BgNVHQ4EFgQUJhmcKgYJYHZTeA3kgKoMkt+L2vgwHwYDVR0jBBgwFoAUJhmcKgYJ
        YHZTeA3kgKoMkt+L2vgwDwYDVR0TAQH/BAUwAwEB/zANBgkqhkiG9w0BAQsFAAOB
        gQB/eNE5KA10pL5Ccs3mrsohism0r8CLGFmsNnB/BCPqq3wInBqgrk7xhVwzQ/ai
        ZQiXJbYvgGSDpgM5aoPZZhD00OSF/jzy49RKN3vxGqOU9uC7WVoOoTlX06O+mJwP
        lAAZ7077VpeWho95rkr4t5ATxHWNEgYQKdoQweUD1E9sow==
        -----END CERTIFICATE-----
        """
    /// A certificate with a key on the curve P-256.
    public static let curveCertificatePEM = """
        -----BEGIN CERTIFICATE-----
        MIIBeDCCAR2gAwIBAgIUe7JKLbeZjU3Q5fjYoAC/Z0jTKZswCgYIKoZIzj0EAwIw
        EDEOMAwGA1UEAwwFY3VydmUwIBcNMjYxMTIwMTAxMTMyWhgPMjEyNjEwMjcxMDEx
        MzJaMBAxDjAMBgNVBAMMBWN1cnZlMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
        sOtVgp8LUYZ34Mden0eaa3tBF8Zro+KDTYSylVbQEhLdxck50e8YsncldII/ih7K
        j1/oPlGs9ECKGEEo2H2JkqNTMFEwHQYDVR0OBBYEFP1A/lHzDGgrC5xJogrh0nqO
        jhHnMB8GA1UdIwQYMBaAFP1A/lHzDGgrC5xJogrh0nqOjhHnMA8GA1UdEwEB/wQF
        MAMBAf8wCgYIKoZIzj0EAwIDSQAwRgIhAOZPKWAYT4+jskQzYWyLTItnw+S7KhW6
        bTPjYGvGQ3/FAiEAlLn/7dSyz7pFV7mlkJAFYM165fTtnT/SSWGCj6SHGgI=
        -----END CERTIFICATE-----
        """

    public static func privateKey() throws -> RSAPrivateKey { try RSAPrivateKey(pem: Array(privatePEM.utf8)) }
    public static func publicKey() throws -> RSAPublicKey { try RSAPublicKey(certificatePEM: certificatePEM) }
}
