/// Keys and certificates for these tests only.
public enum TestCertificates {
    /// An RSA key.
    public static let rsaKey = """
        -----BEGIN PRIVATE KEY-----
        MIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgwggSkAgEAAoIBAQDsrlXaKBoKUl18
        pCSkiiZVuN0on7ASqBPfQIMChUZ/UaXSZXk+rwUBHYcamwfy0jWKlJzE5squxtTB
        4RMHyakweanoizpAZoIFsB7WM3s2ID1JftxtSaFksQAlEsoP02GjrNJoRynX3/Tz
        Z26lj7aY9DG7HICnpLY3r9X6deWU2vodJ6lKkSRUeDUYkNsBBBgQaN+HgIKOAYae
        ZttYeqndXWWSM0VdgcjLgRcbhQg6qaUA7MpnAojXkMKi99cFlYJF2o7yVyAt9/At
        N4uJKm2U4QCXrurTjvKaOS35O6IdZjDSS61wHqWulOw2S9dybbGGKTbGGfTOnSl/
        9wADVVF3AgMBAAECggEATSyNZuyjjRENVbqKDjLTzCjSyE/FkFfI3weAkH5XneVI
        HiIjVjqodZQkvRqnDVjYx36s3ZFprnK75hoXY/cwGVPagK6BSIWESQmEDJFN0DjT
        8xaQFnynSRdj9jK5u05QLJgKJaFqte7bRtDHpemF/zrEyn/BPai6F89YhOoTeaUK
        1Ty0qomX5MwBwOuPfF/K55ARafW0r6IwqZ26Qn8NeQ2BVPAj28fgpal2vgT+jxrn
        ABxnHWgMmeM2+VHciKV2UrqeHzPqM2MsAYjrv90F2KYG8VloM5SlvxVrROwfVwe0
        I0msonbZZH3rCLbKRyh1Hugsd1dotb8NylLGj+eXrQKBgQD5rTCRAt6L+IC2BtYU
        j3D2hLR1rP7W0N5xffcnOF5YIKXVUb0HsVV3FIW54iwv6lkT3qgfhfr8ii7150FL
        Eo+vp3Fdh2/HPPcxs/iEfgHdOMLza1+tizqg2hMSOLekdvQvl+bqgP74Dk+621id
        XX8VttbzbcrvYlOiWPyfJSZuOwKBgQDyrOMxFkvYnp97IPnZcDAPyBUsearRwJaz
        clY5a7d5gKOf6npdRqLszCF18b3ZzdOOvmaUTLHqyW8WPX88+qXaki4rv1L66MGk
        bWMecUg0q9TurJ0i/85e2Pyczh0kXFgssMXt/lBuaT/1FXhSQ22sgtuBARYG9eUP
        UJzXo21J9QKBgE2faYT75mKP3Lw6vd3ghpctxMj9ArGYeD/CkM9RuAsgA06hveoh
        WNfPuo+C4If5DL6fr5c1WUWgVF9BCUyktaU/ooAYdkj0DEoYkL/oSP4VAo8ZJ8LV
        kWGmyt0UYwuvq9UMHc90UVCfamxGe3NZOQRwNr2xubDY2fWUQt3bd+o3AoGBAOcK
        eOcUHjPnmVjF5XoB2JA94wLL9zjpzdCcy8CxcCXqtl2bBNLnXFhsZHMBK8pArulZ
        FxqcBkvNacjX1dr9m4gD4pdd+SfPEAV264ZhPeh/rCNsDdLzjsw4dBDqH06t6Hjr
        +BWFKZhk9jJlNX/EmJdEoq0olosb8u/oxNp8yqE9AoGBAK2Fsa62nWiv5iQmx0dN
        RMZ9ebCrXkw1L+rytOv9sXlPM4N5Yk9b6HVOREQ/bf7UZ8G8z/74xwu6IdvEFd7G
        7IM5H8zWt/ojuL7q3ufjSVqq9g3nzlDhDrTFPTFJhWY6fgdKg54AMNfuGRNQjByL
        8c2q/YVc8XOkHXGAho2dAPPx
        -----END PRIVATE KEY-----
        """

    /// The certificate of the RSA key, for localhost.
    public static let rsaCertificate = """
        -----BEGIN CERTIFICATE-----
        MIIDCzCCAfOgAwIBAgIUDARjB7AuFdUHGOC2XU2l3QTB86MwDQYJKoZIhvcNAQEL
        BQAwFDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMjEwMTQxNFoYDzIxMjYx
        MDI5MTAxNDE0WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwggEiMA0GCSqGSIb3DQEB
        AQUAA4IBDwAwggEKAoIBAQDsrlXaKBoKUl18pCSkiiZVuN0on7ASqBPfQIMChUZ/
        UaXSZXk+rwUBHYcamwfy0jWKlJzE5squxtTB4RMHyakweanoizpAZoIFsB7WM3s2
        ID1JftxtSaFksQAlEsoP02GjrNJoRynX3/TzZ26lj7aY9DG7HICnpLY3r9X6deWU
        2vodJ6lKkSRUeDUYkNsBBBgQaN+HgIKOAYaeZttYeqndXWWSM0VdgcjLgRcbhQg6
        qaUA7MpnAojXkMKi99cFlYJF2o7yVyAt9/AtN4uJKm2U4QCXrurTjvKaOS35O6Id
        ZjDSS61wHqWulOw2S9dybbGGKTbGGfTOnSl/9wADVVF3AgMBAAGjUzBRMB0GA1Ud
        DgQWBBRskQG09k6f8O8zfcv4FAZUO/AHFTAfBgNVHSMEGDAWgBRskQG09k6f8O8z
        fcv4FAZUO/AHFTAPBgNVHRMBAf8EBTADAQH/MA0GCSqGSIb3DQEBCwUAA4IBAQAh
        INaQYQ0tG06E/XJbOD0K/zZvwShFqXYfFlIbrB3VCDn2Ft5O3tzROXG1CErsBW8G
        rnM29TDXl3rfI0nmZQ6gW6hWLp1LdICY9R/jsz0EK5Yg1Yf/YSiVPyDaTMNwt3QC
        2FPyEORWX2IVD8l7tpsjDcE0+eiSkN7C4nls934rAEIju4ozNwQedZxKoUeU7lqP
        xdbalXhgZ13tcCK/c0JCuuT3GSjq6psmbWIZyBZYbrzB85tOQceWAmhkF7sms8/9
        fHulxAaunUZ/FgESvbxTAsXAletdol2GTQ5fq/Q9EF1OHkkTmJKHFtbQxBvjTFm6
        zB0PFEWlKAovcyQPYoQv
        -----END CERTIFICATE-----
        """

    /// Another key (Ed25519).
    public static let otherKey = """
        -----BEGIN PRIVATE KEY-----
        MC4CAQAwBQYDK2VwBCIEIMCuIDmDPSJMq5pQD9bT5x6ghAvL5+LDHOT3S/oEQJ0I
        -----END PRIVATE KEY-----
        """

    public static let otherCertificate = """
        -----BEGIN CERTIFICATE-----
        MIIBNjCB6aADAgECAhQM4GaSwBIwLd76yiCMrEkOdDbgNTAFBgMrZXAwEDEOMAwG
        A1UEAwwFb3RoZXIwIBcNMjYxMTIyMTAxNDE0WhgPMjEyNjEwMjkxMDE0MTRaMBAx
        DjAMBgNVBAMMBW90aGVyMCowBQYDK2VwAyEAZnBNTualHBIFpu0nZT6uJxnXWYfr
        jtDXkaykessBLV2jUzBRMB0GA1UdDgQWBBQUBWlKWqaoCQ6ujoYRmvbiCgkcoDAf
        BgNVHSMEGDAWgBQUBWlKWqaoCQ6ujoYRmvbiCgkcoDAPBgNVHRMBAf8EBTADAQH/
        MAUGAytlcANBAD7JArK69IUBdEAkLEVqFAtL5fGA3xDSZoqkw2JJBuDX+wv05ALp
        kpYQFOvcWWoFvmyxRj3sp2ApunKNXBrZ7gc=
        -----END CERTIFICATE-----
        """

    /// The other key's certificate, expired in 2020.
    public static let expiredCertificate = """
        -----BEGIN CERTIFICATE-----
        MIHKMH4CAQEwBQYDK2VwMBIxEDAOBgNVBAMMB2V4cGlyZWQwHhcNMjAwMTAxMDAw
        MDAwWhcNMjAwMjAxMDAwMDAwWjASMRAwDgYDVQQDDAdleHBpcmVkMCowBQYDK2Vw
        AyEAZnBNTualHBIFpu0nZT6uJxnXWYfrjtDXkaykessBLV0wBQYDK2VwA0EAN3VE
        WM160xWw/AtlfSCd2zTQkeWg3E+VIhCYi/PsJtCyCToG+HAyWXfI/9oaa/l67hpM
        /HvwOf2RRPmVcaqfDg==
        -----END CERTIFICATE-----
        """
}
